"""The errors of hookgw. No I/O.

Every error that a caller can cause or needs to know about is a :class:`HookgwError`. The HTTP API turns it
into an error response (with its ``status``), the commands into an exit code. Any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Self

from hookgw.kernel.sentences import Sentence, sentence_of

LONGEST_RETRY_AFTER = 86_400.0
"""Seconds: a longer wait counts as this one. Without any, the network would be asked again at once."""


class HookgwError(Exception):
    """Base of all errors that are shown to a person.

    Args:
        messages: whole sentences: what is wrong, where, and how to fix it. Those of hookgw are each a
            :class:`Sentence`; a plugin may pass plain texts.

    Attributes:
        messages: as given, each with an id.
        status: the HTTP status of the error response.
    """

    status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages)
        # An error response always has a message, even when a plugin raises the bare class.
        self.messages = tuple(map(sentence_of, messages or (self.status.phrase,)))

    @classmethod
    def of(
        cls,
        id: str,  # noqa: A002 -- the word of the wire
        template: str,
        /,
        *,
        retry_after: float | None = None,
        **values: Any,
    ) -> Self:
        """Return the error with one sentence; see :class:`Sentence` for the arguments.

        Args:
            retry_after: for the classes that have it.
        """
        more: dict[str, Any] = {} if retry_after is None else {"retry_after": retry_after}
        return cls(Sentence(id, template, **values), **more)

    def __str__(self) -> str:
        return " ".join(self.messages)

    def to_log(self) -> str:
        """Return the messages for the log, without the part of a payload that violates its schema."""
        return " ".join(
            f"The payload violates {message.values['rule']} of its schema."
            if "rule" in message.values
            else message
            for message in self.messages
        )


class Invalid(HookgwError):
    """The caller's input breaks a rule. Nothing was stored."""

    status = HTTPStatus.BAD_REQUEST


class WrongFields(Invalid):
    """Fields of a request's body are missing, of a wrong type, or have a value that is not known."""


class EventLeftOut(Invalid):
    """An event of a network is too large to be read, however often it comes. It was reported."""


class KeyReused(Invalid):
    """An ``Idempotency-Key`` was used before, for something else. Nothing was stored or sent."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class Unauthorized(HookgwError):
    """The key is missing or unknown."""

    status = HTTPStatus.UNAUTHORIZED


class Forbidden(HookgwError):
    """The key is known but does not allow this, or the name is taken."""

    status = HTTPStatus.FORBIDDEN


class ForeignKey(Forbidden):
    """The key does not reach the instance, or the call requires a global key."""


class NotFound(HookgwError):
    """The instance, registration or delivery does not exist."""

    status = HTTPStatus.NOT_FOUND


class Expired(HookgwError):
    """The link was valid once, and never will be again."""

    status = HTTPStatus.GONE


class Conflict(HookgwError):
    """The instance's current state does not allow the call."""

    status = HTTPStatus.CONFLICT


class TooManyKeys(Conflict):
    """There is no room for a further key until another one is revoked."""


class TooLarge(HookgwError):
    """A body exceeds its limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedContentType(HookgwError):
    """The content type of the body is not JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class UnsupportedContentEncoding(HookgwError):
    """hookgw cannot decode the body's encoding. The route accepts the encoding ``accepted``."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, *messages: str, accepted: str = "gzip") -> None:
        super().__init__(*messages)
        self.accepted = accepted


_TAKEN_OVER = {status for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST} - {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
}


class NetworkRefused(HookgwError):
    """The messaging network behind a connector refused or failed.

    Args:
        reason: a sentence: the network's reason.
        code: the network's own code for it, such as ``M_FORBIDDEN``; the response shows it.
        status: of the response. 429 with ``retry_after`` tells the caller to try again later; hookgw never
            waits for minutes itself. Only 4xx and 5xx statuses are taken over, but not 401 and 407, which
            would tell the caller that its own key is wrong; anything else becomes 502.
        retry_after: seconds to wait before a retry, if the network said so; at most a day.
        unknown_numbers: numbers of the call that nobody has on the network, each with the id that its account
            would have. The response shows them before the reason.

    Attributes:
        code, retry_after, unknown_numbers: as given.
    """

    status = HTTPStatus.BAD_GATEWAY

    def __init__(
        self,
        reason: str = Sentence("network.refused", "The network refused."),
        *,
        code: str | None = None,
        status: int = HTTPStatus.BAD_GATEWAY,
        retry_after: float | None = None,
        unknown_numbers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.unknown_numbers = dict(unknown_numbers or {})
        self.retry_after = None if retry_after is None else min(retry_after, LONGEST_RETRY_AFTER)
        if status in _TAKEN_OVER:
            self.status = HTTPStatus(status)


class NotSupported(HookgwError):
    """The instance's network has no such call.

    Clients repeat neither this status nor take it for a wrong path.
    """

    status = HTTPStatus.NOT_IMPLEMENTED


class ProofRefused(HookgwError):
    """An inbound request of a network does not carry the network's proof, or a wrong one."""

    status = HTTPStatus.UNAUTHORIZED


class Unavailable(HookgwError):
    """hookgw cannot store anything right now. Nothing was stored.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, *messages: str, retry_after: float = 5.0) -> None:
        super().__init__(*messages)
        self.retry_after = retry_after


class LaneElsewhere(Unavailable):
    """The lane of the registration with this id is on another node of the fleet, or moves."""

    def __init__(self, registration: str) -> None:
        super().__init__(
            Sentence(
                "fleet.lane_elsewhere", "The lane of this delivery is on another node, or moves there. Retry."
            ),
            retry_after=1.0,
        )
        self.registration = registration


class TooManyRequests(HookgwError):
    """Too many requests, or too many wrong keys. This request was not processed.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    status = HTTPStatus.TOO_MANY_REQUESTS

    # No default: each rate limit knows when its next token is due.
    def __init__(self, *messages: str, retry_after: float) -> None:
        super().__init__(*messages)
        self.retry_after = retry_after


class StorageUnavailable(Unavailable):
    """The disk refused a write (full, read-only, failing); the message names the file."""


class StorageLost(StorageUnavailable):
    """The path of the data file names another one: nothing is stored until a restart.

    Or the file is damaged, or the disk cannot read it: nothing is stored until a check finds no problem.
    """


class StartError(HookgwError):
    """The process cannot start: a data file or a port is in use, or a plugin is broken."""


class ConfigError(StartError):
    """The configuration breaks rules. Each message names the key's path and, if known, the line."""


class PluginFailed(HookgwError):
    """A plugin's hook raised or exceeded its deadline. ``reason`` is the cause, as text."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(
            Sentence(
                "plugin.failed",
                "Plugin {plugin!r} failed in {hook}: {reason}",
                plugin=plugin,
                hook=hook,
                reason=reason,
            )
        )
        self.plugin = plugin
        self.hook = hook
        self.reason = reason


class PluginMissing(PluginFailed):
    """A plugin that a registration has options for does not run. What it would decide is not known."""

    def __init__(self, plugin: str) -> None:
        sentence = Sentence(
            "plugin.missing",
            "The plugin {plugin}, which this webhook has options for, does not run. Install it, or switch it "
            "on, and restart hookgw, or remove its options from the webhook. Deliveries wait until then.",
            plugin=plugin,
        )
        super().__init__(plugin, "", sentence)
        self.messages = (sentence,)
