"""The options of an instance on WAHA. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookgw import Invalid
from hookgw import connectors as kit
from hookgw.connectors import check_names, check_server_url, check_token, repr_without, whatsapp_number_of

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "base_url": {
            "type": "string",
            "pattern": "^https?://",
            "x-server": True,
            "x-operator": True,  # it gets the API key, which may be the operator's
            "description": "The URL of the WAHA server, such as https://waha.example.org.",
        },
        "api_key": {
            "type": "string",
            "writeOnly": True,
            "description": "The server's API key (X-Api-Key). Not needed for a server without one.",
        },
        "session": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "pattern": "^[A-Za-z0-9_-]+$",
            "default": "default",
            "x-operator": True,  # with the operator's API key, it could be another tenant's
            "description": "The name of the session on the server. It is created if there is none.",
        },
        "hmac_key": {
            "type": "string",
            "minLength": 16,
            "writeOnly": True,
            "description": "Proves the server's requests to hookgw; without it, hookgw makes one up.",
        },
        "number": {
            "type": "string",
            "description": "The account's phone number: connect then shows a code to type, too.",
        },
    },
}
"""What an instance may set. ``base_url`` is needed, here or in the configuration."""

LINK_PREVIEWS = "link_previews"
"""The operator's own option: whether WAHA may fetch the pages of links in texts, to show previews of them."""

_EXAMPLE = "https://waha.example.org"
_PLACES = "in the request, or for all instances in the configuration at plugins.options.waha"
DEFAULTS = (*(name for name in OPTIONS_SCHEMA["properties"] if name != "number"), LINK_PREVIEWS)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    base_url: str
    api_key: str = ""
    session: str = "default"
    hmac_key: str = ""
    number: str = ""

    __repr__ = repr_without("api_key", "hmac_key")


def check_defaults(options: dict[str, Any]) -> None:
    """Check the block of the configuration.

    Raises:
        ValueError: an unknown name, or a wrong value; the message names it.
    """
    check_names(options, DEFAULTS, "waha has no option {}; its options are servers, ")
    for name, value in options.items():
        type_, words = (bool, "true or false") if name == LINK_PREVIEWS else (str, "a text")
        if not isinstance(value, type_):
            raise ValueError(f"{name} must be {words}")  # noqa: TRY004 (the boundary shows this one as it is)
    for name in ("api_key", "hmac_key"):
        if name in options and "base_url" not in options:
            raise ValueError(f"{name} needs base_url beside it, the server that it is for")
    if "base_url" in options:
        try:
            check_server_url("base_url", options["base_url"], _EXAMPLE)
        except Invalid as error:
            raise ValueError(str(error)) from None


def read_options(options: dict[str, Any], defaults: Mapping[str, Any], url: str | None) -> Options:
    """Return an instance's options.

    Args:
        options: of the instance.
        defaults: of the configuration.
        url: hookgw's own; see :func:`hookgw.connectors.check_public_url`.

    Raises:
        Invalid: an option is missing or wrong; the message names it, and the places where it can be set.
    """
    if not (options.get("base_url") or defaults.get("base_url")):
        raise Invalid.of(
            "waha.base_url_missing", "Set base_url, the URL of the WAHA server, {places}.", places=_PLACES
        )
    usual = kit.defaults_for(options, defaults, ("api_key", "hmac_key"))
    found = kit.read_options({**usual, **options}, Options)
    check_server_url("base_url", found.base_url, _EXAMPLE)
    check_token("api_key", found.api_key)
    kit.check_public_url(url, "WAHA")
    return msgspec.structs.replace(found, number=found.number and whatsapp_number_of(found.number))
