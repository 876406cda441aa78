"""Rules for the values of the settings, beyond their types. No I/O.

A table maps the paths of keys to rules. A rule checks one value, or each item of a list, and returns a
sentence about a mistake. Rules over several values follow in :func:`broken_rules`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

from hookgw.config.brand import LONGEST_BRAND, check_logo, parse_colour
from hookgw.config.cors_origins import parse_origin
from hookgw.config.master_keys import CLEAR, parse_master_key
from hookgw.config.people import LONGEST_PERSON, is_person, is_proxy_header
from hookgw.config.proxy_url import parse_proxy
from hookgw.config.settings import UNIX, Settings, TagLimits
from hookgw.kernel.errors import Invalid
from hookgw.kernel.rates import parse_rate
from hookgw.kernel.rules import check_custom_headers, check_secret, check_url
from hookgw.kernel.units import DAY, Duration, Size
from hookgw.records.instances import FOREIGN, check_name
from hookgw.records.operational_kinds import OPERATIONAL_CATALOG
from hookgw.records.tags import TAG_PART

Rule = Callable[[Any], str | None]
"""Check one value. Return a sentence that says what to write instead, or ``None`` if the value is fine."""

# Deadlines are floats of seconds: far larger ones lose their milliseconds, and infinity is not a date.
_MAX_TIME = Duration(3650 * DAY)
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_LEAST_SECRET = 16
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_BIND_FORMS = "write host:port, [ipv6]:port, unix:/path or fd://number"


def broken_rules(settings: Settings) -> Iterator[tuple[str, str]]:  # noqa: C901 -- a list of rules
    """Check all values. Yield the path of a key (``delivery.schedule[2]``) and what to write instead."""
    for path, rule in _RULES.items():
        value = attrgetter(path)(settings)
        listed = isinstance(value, tuple)
        for index, item in enumerate(value if listed else (value,)):
            sentence = rule(item)
            if sentence is not None:
                yield (f"{path}[{index}]" if listed else path), sentence
    server, delivery, storage, limits = settings.server, settings.delivery, settings.storage, settings.limits
    if bool(server.tls.certificate) != bool(server.tls.key):
        yield "server.tls", "certificate and key belong together: set both, or neither for plain HTTP."
    if not server.bind:
        yield "server.bind", 'the list is empty: write an address, for example ["127.0.0.1:8080"].'
    for index, address in enumerate(server.bind):
        # Port 0 picks another free port each time, so two of them are two listeners.
        if address in server.bind[:index] and not address.endswith(":0"):
            yield f"server.bind[{index}]", f"{address} appears twice: keep one."
    for name in settings.instances.integrations:
        if name not in FOREIGN:
            yield (
                f"instances.integrations.{name}",
                f"clients of Evolution API name no such integration: write {', '.join(sorted(FOREIGN))}.",
            )
    if len(delivery.schedule) > 100:
        yield "delivery.schedule", "the list has more than 100 waits: write fewer, longer ones."
    if delivery.unreachable_first_wait > delivery.unreachable_max_wait:
        sentence = f"must not be longer than unreachable_max_wait ({delivery.unreachable_max_wait})."
        yield "delivery.unreachable_first_wait", sentence
    if storage.master_key and storage.master_key_file:
        yield "storage.master_key_file", "storage.master_key is set too: keep one of them."
    if storage.engine == "postgresql":
        if not storage.url:
            yield "storage.url", "must name the database: postgresql://user:password@host:port/database."
        if storage.backup_folder:
            yield "storage.backup_folder", "is for sqlite: back up the database with pg_dump, and remove it."
    elif storage.url:
        yield "storage.url", "storage.engine is sqlite: write postgresql there, or remove the URL."
    if delivery.kept_answer > delivery.max_answer:
        yield "delivery.kept_answer", f"must not be more than max_answer ({delivery.max_answer})."
    for key in ("bytes", "registration_bytes"):
        # An event larger than the limit would be refused forever, with a message that says "retry later".
        if 0 < getattr(limits, key) < settings.events.max_data:
            sentence = f"must be at least events.max_data ({settings.events.max_data}), or 0 for no limit."
            yield f"limits.{key}", sentence
    for name, one in limits.tags.items():
        yield from _broken_tag_limits(f"limits.tags.{name}", name, one, settings.events.max_data)
    fleet = settings.fleet
    if fleet.url and storage.engine != "postgresql":
        yield "fleet.url", "a data file has one node only: set storage.engine: postgresql, or remove this."
    if fleet.url and not fleet.secret:
        yield "fleet.secret", "fleet.url is set: set a secret, too, the same on all nodes."
    yield from _broken_operations(settings)
    yield from _broken_users(settings)


def _broken_users(settings: Settings) -> Iterator[tuple[str, str]]:
    auth = settings.auth
    if auth.proxy_header is not None and not settings.server.trusted_proxies:
        yield (
            "auth.proxy_header",
            "anybody can send a header: name the proxy that sets it in server.trusted_proxies.",
        )
    if auth.users and auth.proxy_header is None:
        yield "auth.users", "set auth.proxy_header, too: it names the header in which the proxy sends them."
    for person, key in auth.users.items():
        path = f"auth.users.{person[:100]}"
        if not is_person(person):
            yield path, f"a person has 1 to {LONGEST_PERSON} visible characters, without spaces around them."
        try:
            check_name(key, path)
        except Invalid as error:
            yield path, error.messages[0].removeprefix(path).lstrip(".: ")


def _broken_tag_limits(path: str, name: str, one: TagLimits, max_data: Size) -> Iterator[tuple[str, str]]:
    if not re.fullmatch(TAG_PART, name):
        yield path, "no tag has this name: write 1 to 64 letters (A-Z, a-z), digits, '.', '_', '@' or '-'."
    if not 0 <= one.deliveries <= 10**15:
        yield f"{path}.deliveries", f"must be from 0 to {10**15:,}, not {one.deliveries:,}."
    if one.bytes and not max_data <= one.bytes <= 2**60:
        yield f"{path}.bytes", f"must be at least events.max_data ({max_data}), or 0 for none of its own."
    if one.rate is not None:
        try:
            parse_rate(one.rate)
        except ValueError as error:
            yield f"{path}.rate", f"{error}."


def _broken_operations(settings: Settings) -> Iterator[tuple[str, str]]:
    # The block describes a registration, so the checks of a set apply, with paths of the configuration.
    operations = settings.operations
    checks: list[tuple[str, Any, Callable[[Any, str], object]]] = [
        ("operations.url", operations.url, check_url),
        ("operations.headers", operations.headers, check_custom_headers),
        ("operations.secret", operations.secret, check_secret),
    ]
    checks += [
        (f"operations.events[{index}]", name, partial(OPERATIONAL_CATALOG.resolve, operational=True))
        for index, name in enumerate(operations.events)
    ]
    for path, value, check in checks:
        try:
            if value is not None:
                check(value, path)
        except Invalid as error:
            yield from ((path, message.removeprefix(path).lstrip(".: ")) for message in error.messages)


def _rule(is_right: Callable[[Any], bool], sentence: str) -> Rule:
    """Return a rule with a test and a sentence, in which ``{value}`` stands for the value."""
    return lambda value: None if is_right(value) else sentence.format(value=value)


def _between(low: Any, high: Any) -> Rule:
    # Written so that nan fails.
    return _rule(lambda value: low <= value <= high, f"must be from {low} to {high}, not {{value}}.")


def _some_room(otherwise: str) -> Rule:
    return _rule(lambda value: value >= 2**20, f"must be at least 1MiB, not {{value}}; {otherwise}.")


def _parsed_by(parse: Callable[[str], object]) -> Rule:
    """Return a rule for text that a parser must accept; the parser's message is the sentence."""

    def rule(value: str | None) -> str | None:
        try:
            if value is not None:
                parse(value)
        except ValueError as error:
            return str(error)
        return None

    return rule


def _bind(value: str) -> str | None:
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


def _base_path(value: str) -> str | None:
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


def _public_url(value: str | None) -> str | None:
    if value is None:
        return None
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


def _fleet_url(value: str | None) -> str | None:
    try:
        if value is not None:
            parse_origin(value.removesuffix("/"))
    except ValueError:
        return "must be http://host:port or https://host:port, without a path."
    return None


def _network(value: str) -> str | None:
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


def _trusted_proxy(value: str) -> str | None:
    broken = None if value == UNIX else _network(value)
    return f"{broken[:-1]}; unix stands for Unix sockets." if broken else None


def _cors_origin(value: str) -> str | None:
    try:
        parse_origin(value)
    except ValueError:
        return f"{value[:200]!r} must be http(s)://host[:port] alone, for example https://crm.example."
    return None


_some_time = _rule(
    lambda value: 0 < value <= _MAX_TIME, f"must be more than 0s and at most {_MAX_TIME}, not {{value}}."
)
_any_time = _rule(lambda value: value <= _MAX_TIME, f"must be at most {_MAX_TIME}, not {{value}}.")
_some_bytes = _between(Size(1024), Size(2**30))
_count = _between(1, 1_000_000)
_count_or_none = _between(0, 1_000_000)
_limit = _between(0, 10**15)
# SQLite's integers have 64 bits; 2**60 leaves room for sums.
_limit_of_bytes = _rule(
    lambda value: value == 0 or 1024 <= value <= 2**60,
    "must be from 1KiB to 1073741824GiB, or 0 for no limit, not {value}.",
)
_any_size = _rule(lambda value: 0 <= value <= 2**60, "must be at most 1073741824GiB, not {value}.")
_named = _rule(
    lambda value: bool(value.strip()) and "\0" not in value, "must not be empty or contain a NUL character."
)
_in_a_file = _rule(  # SQLite has a meaning for both
    lambda value: value != ":memory:" and not value.startswith("file:"),
    "must be the path of a file, not {value!r}: events are kept on disk.",
)
_old_master_key = _parsed_by(lambda value: value and parse_master_key(value))

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)

_RULES: dict[str, Rule] = {
    "server.bind": _bind,
    "server.base_path": _base_path,
    "server.public_url": _public_url,
    "server.shutdown_grace": _any_time,
    "server.keep_alive_timeout": _some_time,
    "server.header_timeout": _some_time,
    "server.body_timeout": _some_time,
    "server.write_timeout": _some_time,
    "server.max_connections": _count,
    "server.max_connections_per_address": _count,
    "server.max_requests": _count,
    "server.trusted_proxies": _trusted_proxy,
    "server.cors_origins": _cors_origin,
    "server.max_header": _some_bytes,
    "server.max_body": _some_bytes,
    "server.max_batch_body": _some_bytes,
    "server.max_batch_events": _count,
    "server.max_upload": _some_bytes,
    "dashboard.brand.name": _rule(
        lambda value: (
            value is None
            or (value == value.strip() != "" and value.isprintable() and len(value) <= LONGEST_BRAND)
        ),
        f"must have 1 to {LONGEST_BRAND} visible characters, without spaces around them.",
    ),
    "dashboard.brand.logo": _parsed_by(check_logo),
    "dashboard.brand.colour": _parsed_by(parse_colour),
    # The sentence must not repeat the key. A key travels in a header, so it is visible ASCII.
    "auth.global_key": _rule(
        lambda value: value is None or (_VISIBLE.fullmatch(value) is not None and len(value) <= 255),
        "a key is at most 255 visible ASCII characters without spaces, because a header carries it.",
    ),
    "auth.instance_key_rate": _count_or_none,
    "auth.global_key_rate": _count_or_none,
    "auth.failed_attempts": _count_or_none,
    "auth.failed_window": _some_time,
    "auth.proxy_header": _rule(
        lambda value: value is None or is_proxy_header(value),
        "must be a header that says nothing else, such as x-forwarded-user, not {value!r}.",
    ),
    "fleet.node": _rule(
        lambda value: value is None or _HOST_NAME.fullmatch(value) is not None,
        "must be a name of letters, digits, dots, - and _, not {value!r}.",
    ),
    "fleet.url": _fleet_url,
    "fleet.secret": _rule(
        lambda value: value is None or len(value) >= _LEAST_SECRET, "must have at least 16 characters."
    ),
    "storage.path": lambda value: _named(value) or _in_a_file(value),
    # The sentences must not repeat the URL.
    "storage.url": _rule(
        lambda value: (
            not value or (value.startswith(("postgresql://", "postgres://")) and "password=" not in value)
        ),
        "write postgresql://user:password@host:port/database, with the password before the @.",
    ),
    "storage.schema": _rule(
        lambda value: _SCHEMA.fullmatch(value) is not None,
        "{value!r} is not a name of a schema: write up to 63 of a-z, 0-9 and _, not beginning with a digit.",
    ),
    "storage.retention": _any_time,
    "storage.history_limit": _some_room("storage.retention: 0 keeps none"),
    "storage.audit": _any_time,
    "storage.min_free": _any_size,
    "storage.master_key": lambda value: None if value == CLEAR else _old_master_key(value),
    "storage.old_master_keys": _old_master_key,
    # SQLite stores up to 1 GB in a row: that of an event, or of the body that the envelope and plugins made.
    "instances.quiet_after": _rule(
        lambda value: value == 0 or 1 <= value <= _MAX_TIME,
        f"must be at least 1s and at most {_MAX_TIME}, or 0 for never, not {{value}}.",
    ),
    "events.max_data": _between(Size(1024), Size(2**28)),
    "events.log_limit": _some_room("events.keep: wanted keeps none"),
    "events.dedupe": _any_time,
    "events.dedupe_limit": _some_room("events.dedupe: 0 keeps no ids"),
    "server.body_memory": _between(Size(2**20), Size(2**40)),
    "server.response_memory": _between(Size(8 * 2**20), Size(2**40)),
    "events.max_values": _between(1000, 10_000_000),
    "media.lifetime": _some_time,
    "media.limit": _between(Size(1024), Size(2**40)),
    "delivery.allow_networks": _network,
    "delivery.refused_ports": _between(1, 65535),
    "delivery.proxy": _parsed_by(parse_proxy),
    "delivery.connect_timeout": _some_time,
    "delivery.timeout": _some_time,
    "delivery.max_age": _some_time,
    "delivery.schedule": _some_time,
    "delivery.jitter": _between(0, 1),
    "delivery.unreachable_first_wait": _some_time,
    "delivery.unreachable_max_wait": _some_time,
    "delivery.retry_after_max": _any_time,
    "delivery.disable_after": _some_time,
    "delivery.max_answer": _some_bytes,
    "delivery.kept_answer": _between(0, 2**30),
    "delivery.kept_heads": _between(0, 2**20),
    "delivery.host_connections": _between(1, 10_000),
    "delivery.connection_age": _any_time,
    "delivery.memory": _between(Size(2**20), Size(2**40)),
    # An answer of 16 MiB fits into half of it.
    "delivery.answer_memory": _between(Size(32 * 2**20), Size(2**40)),
    "delivery.lane_buffer": _between(1, 100_000),
    "delivery.lane_idle": _some_time,
    "limits.deliveries": _limit,
    "limits.bytes": _limit_of_bytes,
    "limits.registration_deliveries": _limit,
    "limits.registration_bytes": _limit_of_bytes,
    "limits.instance_reserved_deliveries": _limit,
    "limits.instance_reserved_bytes": _any_size,
    "operations.backlog_threshold": _limit,
    "plugins.folders": _named,
    "plugins.names": _rule(
        lambda value: _MODULE.fullmatch(value) is not None,
        "{value!r} is not an importable name: write it as in import company.hooks.",
    ),
    "plugins.disabled": _named,
    "plugins.optional": _named,
    "plugins.order": _named,
    "plugins.hook_timeout": _some_time,
    "plugins.block_warning": _any_time,
}
