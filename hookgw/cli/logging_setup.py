"""Sets up the log: one line per event, from hookgw and from the libraries below it, secrets masked.

Loggers are made with ``structlog.get_logger("hookgw.lane")`` and bind their ids once
(``logger.bind(lane=…)``). Lines that structlog writes and lines of the standard library's ``logging``
(hypercorn, quart, httpx) take the same way to the one handler of the root logger, so none appears twice.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from hookgw.config.settings import LogSettings

if TYPE_CHECKING:
    from structlog.typing import Processor

MASK = "***"
_DEEPEST = 8
_SECRET_KEYS = frozenset(
    {
        *("apikey", "globalkey", "instancekey", "keyhashes", "hash", "jwtkey", "token", "password"),
        *("masterkey", "oldmasterkeys", "keypassword", "options", "proxy"),
        *("authorization", "proxyauthorization", "cookie", "setcookie", "headers", "secret", "secrets"),
    }
)
"""Names of keys, in lower case, without ``-`` and ``_``."""
_SECRETS_IN_TEXT = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(whsec_|whsk_)[a-z0-9+/=_-]+", rf"\1{MASK}"),
        (r"(?<=://)[^/?#\s]+@", f"{MASK}@"),
        (r"(authorization\W{1,5}(?:\w+ +)?)[^\s'\"]+", rf"\1{MASK}"),
        (r"\b(bearer) +[a-z0-9._~+/=-]{16,}", rf"\1 {MASK}"),
        (r"([?&](?:apikey|api_key|token|secret|password|jwt_key)=)[^&#\s]+", rf"\1{MASK}"),
    )
]
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_QUIET = ("httpx", "httpcore", "hpack", "asyncio")
"""Libraries that log each request at level info, or more: only their warnings are shown."""


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every log line of the process to a stream. Calling it again replaces the former set-up.

    Args:
        settings: the format and the least level. ``auto`` is text where the stream is a terminal
            (in colour there, unless ``NO_COLOR`` is set) and JSON lines elsewhere.
        stream: where the lines go, standard error by default; it stays the caller's.
    """
    import structlog

    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    text = settings.format == "text" or (settings.format == "auto" and terminal)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    before = _common_processors()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before, processors=_last_processors(text=text, terminal=terminal)
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(capture=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that takes secrets out of a line, however deep, before it is written.

    Masked are the values of keys that name a secret (``apikey``, ``authorization``, ``headers``, …) and,
    in every text, ``whsec_…``, user and password of URLs, bearer tokens and keys in queries. Records
    are written as the mappings that they are. Control characters and lone surrogates are escaped, so that
    no text from outside can steer a terminal or stop the line.
    """
    for key, value in event.items():
        event[key] = value if key.startswith("_") else _masked(key, value, 0)
    return event


def mask_text(text: str) -> str:
    """A text without the secrets that can be told by their form."""
    for pattern, replacement in _SECRETS_IN_TEXT:
        text = pattern.sub(replacement, text)
    return _UNPRINTABLE.sub(lambda match: repr(match[0])[1:-1], text)


def _masked(key: object, value: Any, depth: int) -> Any:
    if isinstance(key, str) and key.replace("_", "").replace("-", "").lower() in _SECRET_KEYS:
        return MASK if value else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return mask_text(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return {mask_text(str(name)): _masked(name, item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_masked(None, item, depth + 1) for item in value]
    return mask_text(repr(value))


def _common_processors() -> list[Processor]:
    """What every line passes, whoever writes it."""
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        mask_secrets,
    ]


def _last_processors(*, text: bool, terminal: bool) -> list[Processor]:
    """How a line is written."""
    import structlog

    renderer: Processor = structlog.processors.JSONRenderer()
    if text:
        colors = terminal and not os.environ.get("NO_COLOR")
        renderer = structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
