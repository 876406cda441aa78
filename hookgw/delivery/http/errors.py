"""Errors of an exchange with a receiver, by phase. No I/O.

Users read each message in an attempt's ``error``. A message names the receiver by host and port, never by its
URL, which may contain a password.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Phase(StrEnum):
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    RESPONSE = "response"


class Reached(IntEnum):
    """How much of a request the receiver may have got: the furthest point decides what an attempt means.

    Attributes:
        NOTHING: it cannot have seen the event.
        PART: the request broke off or stalled in mid-body.
        ALL: it may have seen the whole event, and done the work.
    """

    NOTHING = 0
    PART = 1
    ALL = 2


class DeliveryError(Exception):
    """Base class: the exchange ended without a status that could decide the attempt.

    Attributes:
        message: a full sentence: what happened, and where.
        reached: how much of the request the receiver may have got.
    """

    phase: Phase = Phase.CONNECT
    reached: Reached = Reached.NOTHING

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def adopt(self, first: DeliveryError) -> None:
        """Take over how far the attempt's first request got, which was further."""
        self.reached = first.reached
        self._say(f"{first.message} The request was sent again, and failed: {self.message}")

    def add(self, hint: str) -> None:
        """Add a sentence that says what the cause may be."""
        self._say(f"{self.message} {hint}")

    def _say(self, message: str) -> None:
        self.message = message
        self.args = (message,)


class Blocked(DeliveryError):
    """The address guard refused the target; the message names the setting that would allow it."""


class ResolveFailed(DeliveryError):
    """The target's name did not resolve to an address."""

    phase = Phase.RESOLVE


class ConnectFailed(DeliveryError):
    pass


class NoAttempt(ConnectFailed):
    """Nothing was sent, and the receiver is not at fault: try again."""


class OutOfDescriptors(NoAttempt):
    """The process or the machine has no free file descriptor, or no free local port."""


class MayNotSend(NoAttempt):
    """This node may no longer send: another one may be at the delivery by now."""


class TlsFailed(DeliveryError):
    """The TLS handshake failed; for a bad certificate the message says what is wrong with it."""

    phase = Phase.TLS


class SendFailed(DeliveryError):
    """The receiver broke the connection while the request was being sent, and had not responded."""

    phase = Phase.SEND


class ResponseFailed(DeliveryError):
    """The receiver closed or reset the connection before its response, or sent none that can be read."""

    phase = Phase.RESPONSE


class NotHttp(ResponseFailed):
    """The first bytes were not HTTP: this server has not taken the event."""


class TimedOut(DeliveryError):
    """A deadline passed before the head of a response was complete; ``phase`` was in progress."""

    def __init__(self, phase: Phase, message: str) -> None:
        super().__init__(message)
        self.phase = phase


class DeadlinePassed(TimedOut):
    """The attempt's own deadline passed while it connected, before the connect timeout did."""
