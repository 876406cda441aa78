"""The options of an instance on Matrix. No I/O."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hookgw import Invalid
from hookgw import connectors as kit
from hookgw.connectors import check_server_url, check_token, repr_without

OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "homeserver": {
            "type": "string",
            "pattern": "^https?://",
            "x-server": True,
            "description": "The URL of the homeserver's client API, such as https://matrix.example.org.",
        },
        "user": {
            "type": "string",
            "description": "The user's id (@shop:example.org) or its local part. Not needed with a token.",
        },
        "password": {
            "type": "string",
            "writeOnly": True,
            "description": "The user's password. hookgw logs in with it once, and keeps the token.",
        },
        "access_token": {
            "type": "string",
            "writeOnly": True,
            "description": "An access token to use in place of a password.",
        },
        "join_invites": {
            "type": "string",
            "enum": ["direct", "all", "none"],
            "default": "direct",
            "description": "Which invitations are accepted: of direct chats, all, or none.",
        },
        "device_name": {
            "type": "string",
            "default": "hookgw",
            "description": "The name of the login in the user's list of sessions.",
        },
    },
    "required": ["homeserver"],
    "anyOf": [{"required": ["user", "password"]}, {"required": ["access_token"]}],
}
"""What an instance may set, and must."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    homeserver: str
    user: str = ""
    password: str = ""
    access_token: str = ""
    join_invites: Literal["direct", "all", "none"] = "direct"
    device_name: str = "hookgw"

    __repr__ = repr_without("password", "access_token")


def read_options(options: dict[str, Any]) -> Options:
    """Return an instance's options.

    Raises:
        Invalid: an option is missing or wrong; the message names it.
    """
    found = kit.read_options(options, Options)
    check_server_url("homeserver", found.homeserver, "https://matrix.example.org")
    check_token("access_token", found.access_token)
    if not found.access_token and not (found.user and found.password):
        raise Invalid.of("matrix.login_missing", "Set the options user and password, or access_token.")
    return found
