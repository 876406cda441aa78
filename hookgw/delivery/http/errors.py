"""What can go wrong in one exchange with a receiver, by phase. No I/O.

Each message is a sentence that a user reads in an attempt's ``error``: it names the receiver by host
and port, never by the URL, which may hold a password.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """How far an exchange had come."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    ANSWER = "answer"


class DeliveryError(Exception):
    """Base of all errors of an exchange: no status came that could decide the attempt.

    Attributes:
        phase: how far it had come.
        message: a whole sentence that says what happened, and where.
    """

    phase: Phase = Phase.CONNECT

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Blocked(DeliveryError):
    """The address guard refused an address of the target; the message names the setting for it."""


class ResolveFailed(DeliveryError):
    """The target's name could not be turned into an address."""

    phase = Phase.RESOLVE


class ConnectFailed(DeliveryError):
    """No address of the target took the connection."""


class TlsFailed(DeliveryError):
    """The TLS handshake failed; for a bad certificate the message says what is wrong with it."""

    phase = Phase.TLS


class SendFailed(DeliveryError):
    """The receiver broke the connection while the request was sent, and had not answered."""

    phase = Phase.SEND


class AnswerFailed(DeliveryError):
    """The receiver closed or reset the connection before its answer, or what came is not HTTP."""

    phase = Phase.ANSWER


class TimedOut(DeliveryError):
    """A deadline passed before the head of an answer was complete.

    Attributes:
        phase: what was being waited for.
    """

    def __init__(self, phase: Phase, message: str) -> None:
        super().__init__(message)
        self.phase = phase
