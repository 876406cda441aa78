"""Rules for one value of the settings, beyond its type, and types that many keys have. No I/O.

The type of a key names its rule, as in ``Annotated[str, bind]``: it checks the value, or each item of a list,
and returns a sentence about a mistake. Rules over several values are in :mod:`hookgw.config.rules`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from hookgw.config.brand import LONGEST_BRAND
from hookgw.config.cors_origins import parse_origin
from hookgw.config.master_keys import CLEAR, parse_master_key
from hookgw.config.people import is_proxy_header
from hookgw.kernel.units import DAY, Duration, Size

Rule = Callable[[Any], str | None]
"""Check one value. Return a sentence that says what to write instead, or ``None`` if the value is fine."""

# Deadlines are floats of seconds: far larger ones lose their milliseconds, and infinity is not a date.
_MAX_TIME = Duration(3650 * DAY)
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_LEAST_SECRET = 16
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_BIND_FORMS = "write host:port, [ipv6]:port, unix:/path or fd://number"

# Stands for the peers on Unix sockets in server.trusted_proxies.
UNIX = "unix"


def _rule(is_right: Callable[[Any], bool], sentence: str) -> Rule:
    """Return a rule with a test and a sentence, in which ``{value}`` stands for the value."""
    return lambda value: None if is_right(value) else sentence.format(value=value)


def between(low: Any, high: Any) -> Rule:
    # Written so that nan fails.
    return _rule(lambda value: low <= value <= high, f"must be from {low} to {high}, not {{value}}.")


def some_room(otherwise: str) -> Rule:
    return _rule(lambda value: value >= 2**20, f"must be at least 1MiB, not {{value}}; {otherwise}.")


def parsed_by(parse: Callable[[str], object]) -> Rule:
    """Return a rule for text that a parser must accept; the parser's message is the sentence."""

    def rule(value: str) -> str | None:
        try:
            parse(value)
        except ValueError as error:
            return str(error)
        return None

    return rule


def bind(value: str) -> str | None:
    if value.startswith("unix:"):
        is_path = value.startswith("unix:/") and "\0" not in value
        return None if is_path else f"{value!r}: write the absolute path, unix:/path."
    if value.startswith("fd://"):
        digits = value.removeprefix("fd://")
        is_number = digits.isdecimal() and digits.isascii()
        return None if is_number else f"{value!r} is not a file descriptor: write fd://3."
    host, colon, port = value.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        return f"{value!r} is not an address to listen on: {_BIND_FORMS}."
    # int() refuses more than 4,300 digits with an error that names no key.
    if int(port[:6]) > 65535:
        return f"{value!r}: a port is from 0 to 65535."
    try:
        if host.startswith("[") and host.endswith("]"):
            # The zone of a link-local address (fe80::1%eth0) is the kernel's business.
            ipaddress.IPv6Address(host[1:-1].partition("%")[0])
            return None
        # Digits and dots alone never reach the resolver, which reads 1.2 as 1.0.0.2.
        if re.fullmatch(r"[0-9.]+", host):
            ipaddress.IPv4Address(host)
            return None
        if len(host) <= 253 and _HOST_NAME.fullmatch(host):
            return None
    except ValueError:
        pass
    return f"{value!r}: {host!r} is not a host: {_BIND_FORMS}; 0.0.0.0 for every IPv4 address."


def base_path(value: str) -> str | None:
    if not value:
        return None
    if not value.startswith("/"):
        return f"{value!r} must start with a slash: /{value}."
    if value.endswith("/") or "//" in value:
        return f"{value!r} must not end with a slash or contain two in a row; leave it empty for no prefix."
    # Brackets of <x> would be a variable in a route, and "%" could be decoded differently by a proxy. Clients
    # leave out "." and "..".
    if (
        not _VISIBLE.fullmatch(value)
        or set(value) & set("?#<>{}%\\")
        or not {".", ".."}.isdisjoint(value.split("/"))
    ):
        return f"{value!r} must be a plain path, for example /hooks."
    return None


def public_url(value: str) -> str | None:
    wrong = "must be an http or https URL with a host, for example https://hooks.example.org."
    if not _VISIBLE.fullmatch(value):
        return wrong
    try:
        # urlsplit raises for a bad IPv6 address, and its port property for a bad port.
        url = urlsplit(value)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return wrong
    if not usable:
        return wrong
    if url.query or url.fragment or url.username is not None or url.password is not None:
        # The sentence must not repeat a password, so it shows the host only.
        return f"the URL must have no user, query or fragment, for example https://{url.hostname}."
    return None


def fleet_url(value: str) -> str | None:
    try:
        parse_origin(value.removesuffix("/"))
    except ValueError:
        return "must be http://host:port or https://host:port, without a path."
    return None


def network(value: str) -> str | None:
    try:
        corrected = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return f"{value!r} is not a network: write one such as 10.1.0.0/16, 192.168.1.7/32 or fd00::/8."
    try:
        ipaddress.ip_network(value)
    except ValueError:
        # 10.1.2.3/8 is more often a mistyped /32 than a whole /8: allowing it silently would open a network.
        return f"{value!r} has host bits set: write {corrected}."
    return None


def trusted_proxy(value: str) -> str | None:
    broken = None if value == UNIX else network(value)
    return f"{broken[:-1]}; unix stands for Unix sockets." if broken else None


def cors_origin(value: str) -> str | None:
    try:
        parse_origin(value)
    except ValueError:
        return f"{value[:200]!r} must be http(s)://host[:port] alone, for example https://crm.example."
    return None


named = _rule(
    lambda value: bool(value.strip()) and "\0" not in value, "must not be empty or contain a NUL character."
)
in_a_file = _rule(  # SQLite has a meaning for both
    lambda value: value != ":memory:" and not value.startswith("file:"),
    "must be the path of a file, not {value!r}: events are kept on disk.",
)
module_name = _rule(
    lambda value: _MODULE.fullmatch(value) is not None,
    "{value!r} is not an importable name: write it as in import company.hooks.",
)
node_name = _rule(
    lambda value: _HOST_NAME.fullmatch(value) is not None,
    "must be a name of letters, digits, dots, - and _, not {value!r}.",
)
schema_name = _rule(
    lambda value: _SCHEMA.fullmatch(value) is not None,
    "{value!r} is not a name of a schema: write up to 63 of a-z, 0-9 and _, not beginning with a digit.",
)
brand_name = _rule(
    lambda value: value == value.strip() != "" and value.isprintable() and len(value) <= LONGEST_BRAND,
    f"must have 1 to {LONGEST_BRAND} visible characters, without spaces around them.",
)
# The sentences about keys, secrets and URLs must not repeat them. A key travels in a header.
global_key = _rule(
    lambda value: _VISIBLE.fullmatch(value) is not None and len(value) <= 255,
    "a key is at most 255 visible ASCII characters without spaces, because a header carries it.",
)
fleet_secret = _rule(lambda value: len(value) >= _LEAST_SECRET, "must have at least 16 characters.")
database_url = _rule(
    lambda value: (
        not value or (value.startswith(("postgresql://", "postgres://")) and "password=" not in value)
    ),
    "write postgresql://user:password@host:port/database, with the password before the @.",
)
proxy_header = _rule(
    is_proxy_header, "must be a header that says nothing else, such as x-forwarded-user, not {value!r}."
)
old_master_key = parsed_by(lambda value: value and parse_master_key(value))
quiet_time = _rule(
    lambda value: value == 0 or 1 <= value <= _MAX_TIME,
    f"must be at least 1s and at most {_MAX_TIME}, or 0 for never, not {{value}}.",
)
_some_time = _rule(
    lambda value: 0 < value <= _MAX_TIME, f"must be more than 0s and at most {_MAX_TIME}, not {{value}}."
)
_any_time = _rule(lambda value: value <= _MAX_TIME, f"must be at most {_MAX_TIME}, not {{value}}.")
# SQLite's integers have 64 bits; 2**60 leaves room for sums.
_any_size = _rule(lambda value: 0 <= value <= 2**60, "must be at most 1073741824GiB, not {value}.")
_limit_of_bytes = _rule(
    lambda value: value == 0 or 1024 <= value <= 2**60,
    "must be from 1KiB to 1073741824GiB, or 0 for no limit, not {value}.",
)


def master_key(value: str) -> str | None:
    return None if value == CLEAR else old_master_key(value)


SomeTime = Annotated[Duration, _some_time]
AnyTime = Annotated[Duration, _any_time]
SomeBytes = Annotated[Size, between(Size(1024), Size(2**30))]
AnySize = Annotated[Size, _any_size]
Memory = Annotated[Size, between(Size(2**20), Size(2**40))]
LimitOfBytes = Annotated[Size, _limit_of_bytes]
Count = Annotated[int, between(1, 1_000_000)]
CountOrNone = Annotated[int, between(0, 1_000_000)]
Limit = Annotated[int, between(0, 10**15)]
Named = Annotated[str, named]
