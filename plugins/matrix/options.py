"""The options of an instance on Matrix. No I/O."""

from __future__ import annotations

import re
from typing import Any, Literal

import httpx
import msgspec

from hookgw import Invalid

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

_HOST = re.compile(rb"[A-Za-z0-9._:-]{1,255}")
# It goes into a header.
_TOKEN = re.compile("[!-~]*")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    homeserver: str
    user: str = ""
    password: str = ""
    access_token: str = ""
    join_invites: Literal["direct", "all", "none"] = "direct"
    device_name: str = "hookgw"

    def __repr__(self) -> str:
        return f"Options(homeserver={self.homeserver!r}, user={self.user!r})"


def read_options(options: dict[str, Any]) -> Options:
    """Return an instance's options.

    Raises:
        Invalid: an option is missing or wrong; the message names it.
    """
    try:
        # Other fields of the request that created the instance may be among them.
        found = msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"The options of the instance are not valid: {error}.") from None
    try:
        url = httpx.URL(found.homeserver)
        url.host  # noqa: B018 -- raises ValueError for names that no IDNA can express
        is_server = url.scheme in ("http", "https") and bool(_HOST.fullmatch(url.raw_host))
        is_server = is_server and (url.port or 1) < 65_536
    except (httpx.InvalidURL, ValueError):
        is_server = False
    if not is_server:
        raise Invalid("homeserver: use the URL of the homeserver, such as https://matrix.example.org.")
    if not _TOKEN.fullmatch(found.access_token):
        raise Invalid("access_token must consist of printable ASCII characters, without spaces.")
    if not found.access_token and not (found.user and found.password):
        raise Invalid("Set the options user and password, or access_token.")
    return found
