"""The options of an instance on Telegram. No I/O."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from hookgw import Invalid
from hookgw import connectors as kit
from hookgw.connectors import check_server_url

OFFICIAL = "https://api.telegram.org"
"""The Bot API server that Telegram runs."""
WEBHOOK_PORTS = (443, 80, 88, 8443)
"""The only ports to which that server sends webhooks."""

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "bot_token": {
            "type": "string",
            "writeOnly": True,
            "description": "The bot's token from @BotFather, such as 123456:ABC-DEF1234ghIkl-zyx57W2v1u1.",
        },
        "mode": {
            "type": "string",
            "enum": ["polling", "webhook"],
            "default": "polling",
            "description": "How updates come: hookgw asks for them, or Telegram posts them to ingestUrl.",
        },
        "base_url": {
            "type": "string",
            "pattern": "^https?://",
            "x-server": True,
            "default": OFFICIAL,
            "description": "The URL of the Bot API server: Telegram's, or a local one.",
        },
    },
    "required": ["bot_token"],
}
"""What an instance may set, and must."""

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{16,200}")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    bot_token: str
    mode: Literal["polling", "webhook"] = "polling"
    base_url: str = OFFICIAL

    @property
    def bot(self) -> str:
        """The bot's user id: the part of the token that is no secret."""
        return self.bot_token.partition(":")[0]

    def __repr__(self) -> str:
        return f"Options(bot={self.bot!r}, mode={self.mode!r}, base_url={self.base_url!r})"


class Defaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the configuration, for all instances that do not set them."""

    mode: Literal["polling", "webhook"] = "polling"
    base_url: str = OFFICIAL


def read_options(options: dict[str, Any]) -> Options:
    """Return an instance's options.

    Raises:
        Invalid: an option is missing or wrong; the message names it, and does not repeat the token.
    """
    if not options.get("bot_token"):
        raise Invalid.of(
            "telegram.token_missing",
            "bot_token is missing: set the option to the token that @BotFather gave for the bot "
            "(PATCH /instance/options), and connect the instance.",
        )
    found = kit.read_options(options, Options)
    if not _TOKEN.fullmatch(found.bot_token):
        raise Invalid.of(
            "telegram.token_form",
            "bot_token is not the token of a bot, such as 123456:ABC-DEF1234ghIkl-zyx57W2v1u1.",
        )
    check_server_url("base_url", found.base_url, OFFICIAL)
    return found


def read_defaults(options: dict[str, Any]) -> Defaults:
    """Return the options in the block ``plugins.options.telegram``.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value; the message names it.
    """
    try:
        found = msgspec.convert(options, Defaults)
        check_server_url("base_url", found.base_url, OFFICIAL)
    except (Invalid, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from None
    return found


def check_webhook_url(url: str | None, base_url: str) -> None:
    """Raise ``Invalid`` unless a Bot API server can send webhooks to hookgw.

    Args:
        url: ``server.public_url``, or any URL below it.
        base_url: of the Bot API server.
    """
    parts = urlsplit(url or "")
    if not parts.hostname:
        raise Invalid.of(
            "telegram.webhook_needs_public_url",
            "mode: webhook needs server.public_url in the configuration, the https URL at which "
            "Telegram reaches hookgw; without it, use the mode polling.",
        )
    if base_url.rstrip("/") != OFFICIAL:
        return  # a local server takes http, and any port
    if parts.scheme != "https":
        raise Invalid.of(
            "telegram.webhook_needs_https",
            "mode: webhook needs an https URL in server.public_url, because Telegram sends "
            "webhooks nowhere else; it is {scheme}://{netloc} now.",
            scheme=parts.scheme,
            netloc=parts.netloc,
        )
    if (parts.port or 443) not in WEBHOOK_PORTS:
        raise Invalid.of(
            "telegram.webhook_port",
            "mode: webhook needs one of the ports {ports} in server.public_url, because Telegram "
            "sends webhooks to no other; it is {port} now.",
            ports=", ".join(map(str, WEBHOOK_PORTS)),
            port=parts.port,
        )
