"""The options of an instance in front of Evolution API, and the operator's defaults. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookgw import Invalid
from hookgw import connectors as kit
from hookgw.connectors import check_names, check_server_url, check_token, repr_without, whatsapp_number_of

from .webhook import EVENTS, NEWER, SPELLINGS

_ROOT = "plugins.options.evolution"

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "base_url": {
            "type": "string",
            "pattern": "^https?://",
            "x-server": True,
            "x-operator": True,  # it gets the API key, which may be the operator's
            "description": "The URL of Evolution API, such as https://evolution.example.org. "
            f"By default that of {_ROOT}.",
        },
        "api_key": {
            "type": "string",
            "minLength": 1,
            "writeOnly": True,
            "description": "The token of the instance in Evolution API, or its global key. "
            f"By default that of {_ROOT}.",
        },
        "remote": {
            "type": "string",
            "minLength": 1,
            "x-operator": True,  # with the operator's API key, it could be another tenant's
            "description": "The name of the instance in Evolution API. By default the same name.",
        },
        "number": {
            "type": "string",
            "description": "The account's phone number: connect then shows a code to type, too.",
        },
        "remote_events": {
            "type": "array",
            "items": {"type": "string", "enum": [*EVENTS, *SPELLINGS, *NEWER]},
            "description": "The kinds that Evolution API shall send; by default all. CONNECTION_UPDATE and "
            "QRCODE_UPDATED always come.",
        },
        "set_webhook": {
            "type": "boolean",
            "default": True,
            "description": "Whether hookgw keeps the webhook in Evolution API set to itself. false gives it "
            "back to the receiver that was registered there before.",
        },
        "media_links": {
            "type": "boolean",
            "description": "Whether files of messages get a link of hookgw, message.mediaUrl, if Evolution "
            "API gives none. By default true.",
        },
    },
}
"""What an instance may set."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one instance; see :data:`OPTIONS_SCHEMA`."""

    base_url: str
    api_key: str
    remote: str
    number: str = ""
    remote_events: tuple[str, ...] = ()
    set_webhook: bool = True
    media_links: bool = True

    __repr__ = repr_without("api_key")


class Defaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``plugins.options.evolution`` may have beside ``servers``.

    Attributes:
        forward_urls: whether Evolution API fetches the files of messages to send itself. An instance cannot
            set it.
        link_previews: whether Evolution API may fetch the pages of links in texts. An instance cannot set it.
        base_url, api_key, remote_events, media_links: as for an instance.
    """

    base_url: str = ""
    api_key: str = ""
    remote_events: tuple[str, ...] = ()
    media_links: bool = True
    forward_urls: bool = False
    link_previews: bool = True

    __repr__ = repr_without("api_key")


def read_defaults(options: Mapping[str, Any]) -> Defaults:
    """Return the operator's defaults.

    Raises:
        ValueError: an unknown name, or a wrong value; the message names it.
    """
    check_names(options, Defaults.__struct_fields__, "evolution has no option {}; its options are ")
    try:
        defaults = msgspec.convert(options, Defaults)
        if defaults.base_url:
            _checked_url(defaults.base_url)
        for name in defaults.remote_events:
            if name not in (*EVENTS, *SPELLINGS, *NEWER):
                raise ValueError(f"remote_events: Evolution API has no event {name}")
    except (Invalid, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from None
    return defaults


def read_options(options: dict[str, Any], defaults: Defaults, instance: str, url: str | None) -> Options:
    """Return an instance's options.

    Args:
        options: of the instance; valid by the schema, if they were checked when they were stored.
        defaults: the operator's.
        instance: the name of the instance.
        url: hookgw's own; see :func:`hookgw.connectors.check_public_url`.

    Raises:
        Invalid: an option is missing or wrong; one sentence names it.
    """
    own = {name: value for name, value in options.items() if name in OPTIONS_SCHEMA["properties"]}
    base_url = own.get("base_url") or defaults.base_url
    if not base_url:
        raise Invalid.of(
            "evolution.base_url_missing",
            "base_url is missing: give the instance this option, or set {root}.base_url in the "
            "configuration.",
            root=_ROOT,
        )
    base_url = _checked_url(base_url)
    api_key = own.get("api_key")
    if not api_key:
        # The operator's key must not go to a server that somebody with the key of one instance has chosen ...
        operators = {"base_url": defaults.base_url or base_url, "api_key": defaults.api_key}
        if defaults.api_key and "api_key" not in kit.defaults_for(own, operators, ("api_key",)):
            raise Invalid.of(
                "evolution.api_key_of_other_server",
                "api_key is missing: that of {root} is only for its own base_url, so an instance "
                "with another base_url needs this option.",
                root=_ROOT,
            )
        # ... and it opens every instance of its own server.
        if defaults.api_key and own.get("remote"):
            raise Invalid.of(
                "evolution.api_key_of_remote",
                "api_key is missing: that of {root} is only for remote instances of the same name, "
                "so an instance with the option remote needs this option, such as the remote "
                "instance's token.",
                root=_ROOT,
            )
        api_key = defaults.api_key
    if not api_key:
        raise Invalid.of(
            "evolution.api_key_missing",
            "api_key is missing: give the instance this option, or set {root}.api_key in the configuration.",
            root=_ROOT,
        )
    given = {"remote_events": defaults.remote_events, "media_links": defaults.media_links, **own}
    named = {"base_url": base_url, "api_key": api_key, "remote": own.get("remote") or instance}
    found = kit.read_options({**given, **named}, Options)
    check_token("api_key", found.api_key)
    kit.check_public_url(url, "Evolution API")
    return msgspec.structs.replace(found, number=found.number and whatsapp_number_of(found.number))


def _checked_url(text: str) -> str:
    check_server_url("base_url", text, "https://evolution.example.org")
    return text.rstrip("/")
