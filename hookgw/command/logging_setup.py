"""Configures the log: one line per event, from hookgw and from its libraries, with secrets masked.

A module gets its logger with ``structlog.get_logger("hookgw.lane")`` and binds ids once
(``logger.bind(lane=…)``). structlog and the standard library's ``logging`` (hypercorn, quart, httpx) both
write through one handler of the root logger, so that no line appears twice and none escapes the masking.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from hookgw.config.settings import LogSettings
from hookgw.core.recent_log import recent_log

if TYPE_CHECKING:
    from structlog.typing import Processor

MASK = "***"
_MAX_DEPTH = 8
_SECRET_KEYS = frozenset(
    {"apikey", "xapikey", "globalkey", "instancekey", "keyhashes", "hash", "jwtkey", "token", "password"}
    | {"masterkey", "oldmasterkeys", "keypassword", "options", "proxy", "headers", "secret", "secrets"}
    | {"authorization", "proxyauthorization", "cookie", "setcookie"}
)
"""Names of keys in lower case, without ``-`` and ``_``."""
_SECRETS_IN_TEXT = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(whsec_|whsk_)[a-z0-9+/=_-]+", rf"\1{MASK}"),
        # Up to the last "@" before the path: a password may contain "@" itself.
        (r"(?<=://)[^/?#\s]+@", f"{MASK}@"),
        (r"(authorization\W{1,5}(?:\w+ +)?)[^\s'\"]+", rf"\1{MASK}"),
        # At least 16 characters: "a bearer token" is prose.
        (r"\b(bearer) +[a-z0-9._~+/=-]{16,}", rf"\1 {MASK}"),
        (r"([?&](?:apikey|api_key|token|secret|password|jwt_key)=)[^&#\s]+", rf"\1{MASK}"),
    )
]
_RARE = re.compile(r"[^\t\n -~]")
_QUIET = ("httpx", "httpcore", "hpack", "asyncio", "mcp")
"""Libraries that log every request at level info: only their warnings are shown."""


class _Seldom(logging.Filter):
    """Lets a line pass once a minute, without its traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + 60
        return True


class _WithPriority(logging.Formatter):
    """Begins each line with its priority, as the journal of systemd takes it: see sd-daemon(3)."""

    _PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in self._PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{priority}>{line}" for line in self._inner.format(record).split("\n"))


def _is_journal(stream: TextIO) -> bool:
    """Whether the journal reads a stream: otherwise what it gets is no log of systemd."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or in memory
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every log line of the process to a stream. A second call replaces the first configuration.

    Args:
        settings: the format and the minimum level. ``auto`` means text if the stream is a terminal (with
            colour, unless ``NO_COLOR`` is set), and JSON lines otherwise.
        stream: the destination, standard error by default. The caller keeps ownership and closes it.
    """
    # structlog is slow to import, and most commands never log.
    import structlog

    stream = sys.stderr if stream is None else stream
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        # Last, so that it also masks what the processors above add: tracebacks and bound values.
        mask_secrets,
    ]

    def formatter(*last: Processor) -> logging.Formatter:
        # Lines of the standard library pass the same processors as those of structlog.
        shape = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors, processors=shape)

    def text(*, colors: bool) -> logging.Formatter:
        # The default formatter prints the local variables of each frame, secrets included.
        plain = structlog.dev.plain_traceback
        return formatter(
            _on_one_line, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)
        )

    handler = logging.StreamHandler(stream)
    if settings.format == "text" or (settings.format == "auto" and stream.isatty()):
        lines = text(colors=stream.isatty() and not os.environ.get("NO_COLOR"))
    else:  # JSON escapes line breaks by itself
        lines = formatter(structlog.processors.JSONRenderer())
    handler.setFormatter(_WithPriority(lines) if _is_journal(stream) else lines)
    # For the dashboard; without colours, whatever the stream is.
    recent_log.setFormatter(text(colors=False))
    logging.basicConfig(handlers=[handler, recent_log], level=level, force=True)
    logging.captureWarnings(capture=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    # The driver warns of each error that follows another one, which hookgw reports.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    # Without a descriptor for a connection, Trio tries ten times a second, and says so each time.
    logging.getLogger("trio.serve_listeners").filters = [_Seldom()]
    structlog.configure(
        processors=[*processors, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Module-level loggers exist before this call. A cached one would keep the former configuration.
        cache_logger_on_first_use=False,
    )


def log_beside_output() -> None:
    """Send log lines to standard error, as text, unless the log is configured: structlog prints them itself.

    Standard output belongs to the command's result, which a program may read.
    """
    import structlog

    if not structlog.is_configured():
        configure_logging(LogSettings(format="text"))


def log_uncaught() -> None:
    """Send what fails outside of the program's own calls to the log: threads, ``__del__``, and lines of it.

    Python prints these tracebacks itself: with their secrets, as lines that are no JSON, and in pieces if
    several threads write at once. Call this once, in a process that only runs a gateway.
    """
    import structlog

    logger = structlog.get_logger("hookgw")

    def log_thread(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
            logger.error(
                "a thread failed", thread=failed.thread and failed.thread.name, exc_info=failed.exc_value
            )

    def log_ignored(ignored: sys.UnraisableHookArgs) -> None:
        # Only its name: to show the object may fail as well.
        where = getattr(ignored.object, "__qualname__", type(ignored.object).__qualname__)
        logger.error("an exception was ignored", where=where, exc_info=ignored.exc_value)

    class Record(logging.LogRecord):
        def getMessage(self) -> str:  # noqa: N802 -- the name of logging
            try:
                return super().getMessage()
            except (TypeError, ValueError, KeyError):  # the text does not fit its values
                return f"{self.msg} {self.args!r}"

    logging.setLogRecordFactory(Record)
    threading.excepthook = log_thread
    sys.unraisablehook = log_ignored


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask the secrets in a line, at any depth. A structlog processor.

    It masks the values of keys that name a secret (``apikey``, ``authorization``, ``headers``, …), and every
    text by :func:`mask_text`. Records are written as mappings.
    """
    for key, value in event.items():
        # structlog's own entries (_record, _from_structlog) are removed before the line is written.
        event[key] = value if key.startswith("_") else _masked(key, value, 0)
    return event


def mask_text(text: str) -> str:
    """Return a text without the secrets that have a recognisable form, and without control characters.

    These are ``whsec_…``, user and password in URLs, bearer tokens, and keys in query strings. Characters
    that control a terminal or the direction of text are escaped, so that no text from outside does it. So are
    lone surrogates: they cannot be encoded as UTF-8, and writing one would lose the whole line.
    """
    for pattern, replacement in _SECRETS_IN_TEXT:
        text = pattern.sub(replacement, text)
    return _RARE.sub(lambda match: repr(match[0])[1:-1], text)


def _on_one_line(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Let no text begin a line, which would look like one of the log. A structlog processor, for text."""
    # Values are written with escapes if they have line breaks; a traceback is below the line.
    event["event"] = str(event.get("event")).replace("\n", "\\n")
    return event


def _masked(key: object, value: Any, depth: int) -> Any:
    if isinstance(key, str) and key.replace("_", "").replace("-", "").lower() in _SECRET_KEYS:
        # An empty value is shown: "no token was set" is what one looks for in a log.
        return MASK if value else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return mask_text(value)
    if depth >= _MAX_DEPTH:  # a structure may contain itself
        return "…"
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return {mask_text(str(name)): _masked(name, item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_masked(None, item, depth + 1) for item in value]
    return mask_text(repr(value))
