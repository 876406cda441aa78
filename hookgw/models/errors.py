"""What can go wrong, by whose fault it is. No I/O.

Every error that a caller of the gateway can cause or must hear of is a :class:`HookgwError`.
The HTTP interface turns each into the one error shape (its ``status``), the commands into an
exit code. Anything else that is raised is a bug.
"""

from __future__ import annotations

from http import HTTPStatus


class HookgwError(Exception):
    """Base of all errors that have a reader.

    ``messages`` are whole sentences: what is wrong, where, and what would be right.
    """

    status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages)
        self.messages: tuple[str, ...] = messages or (self.status.phrase,)

    def __str__(self) -> str:
        return " ".join(self.messages)


class Invalid(HookgwError):
    """The caller's input breaks a rule; nothing of it was kept."""

    status = HTTPStatus.BAD_REQUEST


class Unauthorized(HookgwError):
    """No key, or one that nobody knows."""

    status = HTTPStatus.UNAUTHORIZED


class Forbidden(HookgwError):
    """A known key that does not reach this far, or a name that is taken."""

    status = HTTPStatus.FORBIDDEN


class NotFound(HookgwError):
    """The instance, registration or delivery does not exist."""

    status = HTTPStatus.NOT_FOUND


class Conflict(HookgwError):
    """The state of the instance does not allow the call now."""

    status = HTTPStatus.CONFLICT


class TooLarge(HookgwError):
    """A body over its limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedContentType(HookgwError):
    """A body that does not say it is JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class NetworkRefused(HookgwError):
    """The messaging network, behind a connector, refused or failed."""

    status = HTTPStatus.BAD_GATEWAY


class Unavailable(HookgwError):
    """hookgw cannot keep what it was given just now; nothing of it was kept.

    ``retry_after`` is in seconds.
    """

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, *messages: str, retry_after: float = 5.0) -> None:
        super().__init__(*messages)
        self.retry_after = retry_after


class TooManyRequests(HookgwError):
    """Too many requests, or too many wrong keys; nothing of this one was looked at.

    ``retry_after`` is in seconds.
    """

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, *messages: str, retry_after: float) -> None:
        super().__init__(*messages)
        self.retry_after = retry_after


class StorageUnavailable(Unavailable):
    """The disk refused a write (full, read-only, failing); the message names the file."""


class StartError(HookgwError):
    """The process cannot start as it was told to: a data file in use, a port in use, a bad plugin."""


class ConfigError(StartError):
    """The configuration breaks a rule; each message names the key's path and, if known, the line."""


class PluginFailed(HookgwError):
    """A plugin's hook raised, or ran past its deadline.

    Attributes:
        plugin: the name of the plugin at fault.
        hook: the name of the hook.
    """

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(f"Plugin {plugin!r} failed in {hook}: {reason}")
        self.plugin = plugin
        self.hook = hook
        self.reason = reason
