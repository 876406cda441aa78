"""The options of an instance on WAHA. No I/O."""

from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec

from hookgw import Invalid

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
    },
}
"""What an instance may set. ``base_url`` is needed, here or in the configuration."""

LINK_PREVIEWS = "link_previews"
"""The operator's own option: whether WAHA may fetch the pages of links in texts, to show previews of them."""

_KEY = re.compile("[!-~]*")
_HOST = re.compile(rb"[A-Za-z0-9._:-]{1,255}")
_PLACES = "in the request, or for all instances in the configuration at plugins.options.waha"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options; see :data:`OPTIONS_SCHEMA`."""

    base_url: str
    api_key: str = ""
    session: str = "default"
    hmac_key: str = ""

    def __repr__(self) -> str:
        return f"Options(base_url={self.base_url!r}, session={self.session!r})"


def check_defaults(options: dict[str, Any]) -> None:
    """Check the block of the configuration.

    Raises:
        ValueError: an unknown name, or a wrong value; the message names it.
    """
    known = (*OPTIONS_SCHEMA["properties"], LINK_PREVIEWS)
    for name, value in options.items():
        if name == LINK_PREVIEWS:
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false")
            continue
        if name not in known:
            raise ValueError(f"waha has no option {name}; its options are servers, {', '.join(known)}")
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text")  # noqa: TRY004 (the boundary shows this one as it is)
    for name in ("api_key", "hmac_key"):
        if name in options and "base_url" not in options:
            raise ValueError(f"{name} needs base_url beside it, the server that it is for")
    if "base_url" in options:
        try:
            _check_url(options["base_url"])
        except Invalid as error:
            raise ValueError(str(error)) from None


def schema_with(defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the operator's defaults, but for secrets, which it would show."""
    properties = {
        name: {**described, "default": defaults[name]}
        if name in defaults and not described.get("writeOnly")
        else described
        for name, described in OPTIONS_SCHEMA["properties"].items()
    }
    return {**OPTIONS_SCHEMA, "properties": properties}


def read_options(options: dict[str, Any], defaults: dict[str, Any]) -> Options:
    """Return an instance's options.

    Args:
        options: of the instance.
        defaults: of the configuration.

    Raises:
        Invalid: an option is missing or wrong; the message names it, and the places where it can be set.
    """
    base_url = options.get("base_url") or defaults.get("base_url")
    if not base_url:
        raise Invalid(f"Set base_url, the URL of the WAHA server, {_PLACES}.")
    if base_url != defaults.get("base_url"):
        # The operator's keys are for the operator's server.
        defaults = {name: value for name, value in defaults.items() if name not in ("api_key", "hmac_key")}
    try:
        # Other fields of the request that created the instance may be among them.
        found = msgspec.convert({**defaults, **options}, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"The options of the instance are not valid: {error}.") from None
    _check_url(found.base_url)
    if not _KEY.fullmatch(found.api_key):  # it goes into a header
        raise Invalid("api_key must consist of printable ASCII characters, without spaces.")
    return found


def _check_url(base_url: str) -> None:
    try:
        url = httpx.URL(base_url)
        url.host  # noqa: B018 -- raises ValueError for names that no IDNA can express
    except (httpx.InvalidURL, ValueError) as error:
        raise Invalid(f"base_url: {error}.") from None
    is_server = url.scheme in ("http", "https") and _HOST.fullmatch(url.raw_host) and (url.port or 1) < 65_536
    if not is_server or url.query or url.fragment:
        raise Invalid("base_url: use the URL of the WAHA server, such as https://waha.example.org.")
    if url.userinfo:
        raise Invalid("base_url must not contain a user or a password; WAHA knows callers by their api_key.")


def check_public_url(public_url: str | None) -> None:
    """Raise Invalid if the network cannot reach hookgw."""
    if not public_url:
        raise Invalid("Set server.public_url in the configuration: WAHA sends its events to that address.")
