"""The options of an instance on GOWA. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookgw import Invalid
from hookgw import connectors as kit
from hookgw.connectors import check_names, check_server_url, repr_without, whatsapp_number_of

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "base_url": {
            "type": "string",
            "pattern": "^https?://",
            "x-server": True,
            "x-operator": True,  # it gets the password, which may be the operator's
            "description": "The URL of the GOWA server, such as http://gowa:3000.",
        },
        "user": {
            "type": "string",
            "pattern": "^[^:]*$",
            "description": "The name before the colon in GOWA's --basic-auth.",
        },
        "password": {
            "type": "string",
            "writeOnly": True,
            "description": "The password behind the colon in GOWA's --basic-auth.",
        },
        "device": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "pattern": "^[A-Za-z0-9._-]+$",
            "x-operator": True,  # with the operator's password, it could be another tenant's
            "description": "The id of the device on the server. By default the name of the instance. "
            "It is created if there is none.",
        },
        "number": {
            "type": "string",
            "description": "The account's phone number: connect then shows a code to type, too.",
        },
    },
}
"""What an instance may set. ``base_url`` is needed, here or in the configuration."""

DEFAULTS = ("base_url", "user", "password")
_EXAMPLE = "http://gowa:3000"
_PLACES = "in the request, or for all instances in the configuration at plugins.options.gowa"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    base_url: str
    user: str = ""
    password: str = ""
    device: str = ""
    number: str = ""

    __repr__ = repr_without("password")


def check_defaults(options: dict[str, Any]) -> None:
    """Check the block of the configuration.

    Raises:
        ValueError: an unknown name, or a wrong value; the message names it.
    """
    check_names(options, DEFAULTS, "gowa has no option {}; its options are servers, ")
    for name, value in options.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text")  # noqa: TRY004 (the boundary shows this one as it is)
    for name in ("user", "password"):
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
            "gowa.base_url_missing", "Set base_url, the URL of the GOWA server, {places}.", places=_PLACES
        )
    usual = kit.defaults_for(options, defaults, ("user", "password"))
    found = kit.read_options({**usual, **options}, Options)
    check_server_url("base_url", found.base_url, _EXAMPLE)
    if ":" in found.user or not (found.user + found.password).isprintable():
        raise Invalid.of(
            "gowa.user_form", "user and password must be printable, and user must have no colon."
        )
    kit.check_public_url(url, "GOWA")
    return msgspec.structs.replace(found, number=found.number and whatsapp_number_of(found.number))
