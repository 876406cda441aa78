"""The options of an instance on the Cloud API. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw import Invalid, Sentence
from hookgw import connectors as kit
from hookgw.connectors import check_names, check_server_url, check_token, repr_without

PLUGIN = "whatsapp_cloud"
NEEDED = ("phone_number_id", "access_token", "app_secret", "verify_token")
"""Without these, nothing works."""

_ID = re.compile("[0-9]{1,32}")
# Only of an instance: an account has one number, and the configuration serves all instances.
_OF_AN_INSTANCE = "phone_number_id"

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phone_number_id": {
            # Meta's dashboard shows it as a number, and people paste it as one.
            "type": ["string", "integer"],
            "pattern": "^[0-9]{1,32}$",
            "minimum": 1,
            "x-operator": True,  # with the operator's token, it could be another tenant's
            "description": "The id of the phone number at Meta (not the number itself).",
        },
        "access_token": {
            "type": "string",
            "writeOnly": True,
            "description": "A token of a system user with the permission whatsapp_business_messaging.",
        },
        "app_secret": {
            "type": "string",
            "writeOnly": True,
            "description": "The secret of the app at Meta, which signs the requests to ingestUrl.",
        },
        "verify_token": {
            "type": "string",
            "writeOnly": True,
            "description": "Any text of yours. Meta gets the same, and shows it when it checks ingestUrl.",
        },
        "api_version": {
            "type": "string",
            "pattern": "^v[0-9]{1,3}\\.[0-9]{1,2}$",
            "default": "v26.0",
            "description": "The version of the Graph API.",
        },
        "base_url": {
            "type": "string",
            "pattern": "^https?://[^/?#@]+/?$",
            "x-server": True,
            "default": "https://graph.facebook.com",
            "x-operator": True,  # it gets the token, which may be the operator's
            "description": "The URL of the Graph API.",
        },
        "number": {
            "type": ["string", "integer"],
            "x-operator": True,
            "description": "The same as phone_number_id, as clients of Evolution API call it.",
        },
    },
}
"""What an instance may set. :func:`missing` says what it must."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    phone_number_id: str = ""
    access_token: str = ""
    app_secret: str = ""
    verify_token: str = ""
    api_version: str = "v26.0"
    base_url: str = "https://graph.facebook.com"

    __repr__ = repr_without("access_token", "app_secret", "verify_token")


class _Defaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    access_token: str = ""
    app_secret: str = ""
    verify_token: str = ""
    api_version: Annotated[str, Meta(pattern=r"^v[0-9]{1,3}\.[0-9]{1,2}$")] = "v26.0"
    base_url: Annotated[str, Meta(pattern="^https?://[^/?#@]+/?$")] = "https://graph.facebook.com"


DEFAULTS = _Defaults.__struct_fields__


def check_defaults(options: Mapping[str, Any]) -> None:
    """Check the options that the configuration gives to all instances.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value; the message names it.
    """
    if _OF_AN_INSTANCE in options:
        raise ValueError("phone_number_id belongs to an instance: set it in /instance/create")
    check_names(options, DEFAULTS, "whatsapp_cloud has no option {}; its options here are ")
    msgspec.convert(dict(options), _Defaults)


def read_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Options:
    """Return an instance's options.

    Args:
        options: of the instance. Other fields of the request that created it may be among them.
        defaults: those of the configuration, for what the instance does not set.

    Raises:
        Invalid: an option has a wrong type, or is missing; the message is a sentence.
    """
    # An option that was emptied is no option.
    given = {name: value for name, value in options.items() if value not in (None, "")}
    number = given.get(_OF_AN_INSTANCE) or given.get("number")
    if isinstance(number, str | int) and not isinstance(number, bool):
        given[_OF_AN_INSTANCE] = str(number)
    # The operator's token goes to the operator's Graph API alone.
    usual = kit.defaults_for(given, {"base_url": Options().base_url, **defaults}, ("access_token",))
    found = kit.read_options({**usual, **given}, Options)
    if found.phone_number_id and not _ID.fullmatch(found.phone_number_id):
        raise Invalid.of(
            "whatsapp_cloud.phone_number_id_form",
            "phone_number_id is the id of the number at Meta, which consists of digits.",
        )
    lacking = [name for name in NEEDED if not getattr(found, name)]
    if lacking:
        raise Invalid(missing(lacking))
    check_server_url("base_url", found.base_url, Options().base_url)
    check_token("access_token", found.access_token)
    return found


def missing(names: list[str]) -> Sentence:
    """Return the sentence for options that are set nowhere: it says where they can be set."""
    shared = [name for name in names if name != _OF_AN_INSTANCE]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if not shared:
        return Sentence(
            "whatsapp_cloud.number_missing",
            "{options} must be set in the options of the instance (POST /instance/create, "
            "PATCH /instance/options/<instance>).",
            options=listed,
        )
    if shared == names:
        return Sentence(
            "whatsapp_cloud.options_missing",
            "{options} must be set in the options of the instance (POST /instance/create, "
            "PATCH /instance/options/<instance>), or in the configuration (plugins.options.whatsapp_cloud).",
            options=listed,
        )
    return Sentence(
        "whatsapp_cloud.options_and_number_missing",
        "{options} must be set in the options of the instance (POST /instance/create, "
        "PATCH /instance/options/<instance>), or {shared} also in the configuration "
        "(plugins.options.whatsapp_cloud).",
        options=listed,
        shared=", ".join(shared),
    )
