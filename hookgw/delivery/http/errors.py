"""Errors of an exchange with a receiver, by phase. No I/O.

Users read each message in an attempt's ``error``. A message names the receiver by host and port, never by its
URL, which may contain a password.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The phase in which an exchange failed."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    RESPONSE = "response"


class DeliveryError(Exception):
    """Base class: the exchange ended without a status that could decide the attempt.

    Attributes:
        phase: the phase in which the exchange failed.
        message: a full sentence that says what happened, and where.
    """

    phase: Phase = Phase.CONNECT

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Blocked(DeliveryError):
    """The address guard refused the target; the message names the setting that would allow it."""


class ResolveFailed(DeliveryError):
    """The target's name did not resolve to an address."""

    phase = Phase.RESOLVE


class ConnectFailed(DeliveryError):
    """No address of the target accepted the connection."""


class OutOfDescriptors(ConnectFailed):
    """The process or the machine has no free file descriptor. The receiver is not at fault: try again."""


class TlsFailed(DeliveryError):
    """The TLS handshake failed; for a bad certificate the message says what is wrong with it."""

    phase = Phase.TLS


class SendFailed(DeliveryError):
    """The receiver broke the connection while the request was being sent, and had not responded."""

    phase = Phase.SEND


class ResponseFailed(DeliveryError):
    """The receiver closed or reset the connection before its response, or did not send HTTP."""

    phase = Phase.RESPONSE


class TimedOut(DeliveryError):
    """A deadline passed before the head of a response was complete.

    Attributes:
        phase: the phase that was in progress.
    """

    def __init__(self, phase: Phase, message: str) -> None:
        super().__init__(message)
        self.phase = phase


class DeadlinePassed(TimedOut):
    """The attempt's own deadline passed while it connected, before the connect timeout did."""
