"""Which values of the settings make sense, beyond their types. No I/O.

A table of rules by key path; each rule looks at one value and says what would be right, or nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from hookgw.config.master_keys import CLEAR, parse_master_key
from hookgw.config.proxy_url import parse_proxy
from hookgw.config.settings import UNIX, OperationsSettings, ServerSettings, Settings
from hookgw.models.errors import Invalid
from hookgw.models.operational_kinds import OPERATIONAL_CATALOG
from hookgw.models.units import DAY, Duration, Size
from hookgw.parsing.headers import check_headers
from hookgw.parsing.registrations import check_secret, check_url

Rule = Callable[[Any], str | None]
"""Looks at one value; gives a sentence that says what would be right, ``None`` where it is right."""

_LONGEST = Duration(3650 * DAY)
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_BIND_FORMS = "write host:port, [ipv6]:port, unix:/path or fd://number"


def broken_rules(settings: Settings) -> Iterator[tuple[str, str]]:
    """Everything in the settings that makes no sense.

    Yields:
        Pairs of a key's path (``delivery.schedule[2]``) and a sentence that says what would be right.
    """
    for path, rule in _RULES.items():
        section, _, key = path.partition(".")
        value = getattr(getattr(settings, section), key)
        items = (
            [(f"{path}[{i}]", item) for i, item in enumerate(value)]
            if isinstance(value, tuple)
            else [(path, value)]
        )
        for place, item in items:
            sentence = rule(item)
            if sentence is not None:
                yield place, sentence
    yield from _broken_together(settings)


def _broken_together(settings: Settings) -> Iterator[tuple[str, str]]:
    """Rules over more than one value."""
    delivery = settings.delivery
    yield from _broken_server(settings.server)
    if len(delivery.schedule) > 100:
        yield "delivery.schedule", "there are more than 100 waits: write fewer, longer ones."
    if delivery.unreachable_first_wait > delivery.unreachable_max_wait:
        yield (
            "delivery.unreachable_first_wait",
            f"must not be longer than unreachable_max_wait ({delivery.unreachable_max_wait}).",
        )
    if settings.storage.master_key and settings.storage.master_key_file:
        yield "storage.master_key_file", "storage.master_key is given too: keep one of them."
    if delivery.kept_answer > delivery.max_answer:
        yield "delivery.kept_answer", f"must not be more than max_answer ({delivery.max_answer})."
    for key in ("bytes", "registration_bytes"):
        if 0 < getattr(settings.limits, key) < settings.events.max_data:
            yield (
                f"limits.{key}",
                f"must not be less than events.max_data ({settings.events.max_data}), or be 0 for no limit.",
            )
    yield from _broken_operations(settings.operations)


def _broken_operations(settings: OperationsSettings) -> Iterator[tuple[str, str]]:
    """What makes no sense in the settings.

    Yields:
        Pairs of a key's path and a sentence that says what would be right.
    """
    checks: list[tuple[str, Any, Callable[[Any, str], object]]] = [
        ("operations.url", settings.url, check_url),
        *(
            (f"operations.events[{i}]", name, OPERATIONAL_CATALOG.resolve)
            for i, name in enumerate(settings.events)
        ),
        ("operations.headers", settings.headers, check_headers),
        ("operations.secret", settings.secret, check_secret),
    ]
    for path, value, check in checks:
        try:
            if value is not None:
                check(value, path)
        except Invalid as error:
            yield from ((path, message.removeprefix(path).lstrip(".: ")) for message in error.messages)


def _broken_server(server: ServerSettings) -> Iterator[tuple[str, str]]:
    if bool(server.tls.certificate) != bool(server.tls.key):
        yield "server.tls", "certificate and key belong together: give both, or none for plain HTTP."
    if not server.bind:
        yield "server.bind", 'this list is empty: name an address, for example ["127.0.0.1:8080"].'
    for number, address in enumerate(server.bind):
        if address in server.bind[:number] and not address.endswith(":0"):
            yield f"server.bind[{number}]", f"{address} is there twice: keep one."


def _between(low: Any, high: Any) -> Rule:
    return lambda value: None if low <= value <= high else f"must be from {low} to {high}, not {value}."


def _some_time(value: Duration) -> str | None:
    return None if 0 < value <= _LONGEST else f"must be more than 0s and at most {_LONGEST}, not {value}."


def _any_time(value: Duration) -> str | None:
    return None if value <= _LONGEST else f"must be at most {_LONGEST}, not {value}."


def _some_bytes(value: int) -> str | None:
    return None if 1024 <= value <= 2**30 else f"must be from 1KiB to 1GiB, not {value}."


def _some_space(value: Size) -> str | None:
    return None if value >= 2**20 else f"must be at least 1MiB, not {value}; storage.retention: 0 keeps none."


def _bind(value: str) -> str | None:
    if value.startswith("unix:"):
        return None if value.startswith("unix:/") else f"{value!r}: give the socket's whole path, unix:/path."
    if value.startswith("fd://"):
        digits = value.removeprefix("fd://")
        return (
            None
            if digits.isdecimal() and digits.isascii()
            else f"{value!r} names no descriptor: write fd://3."
        )
    host, colon, port = value.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        return f"{value!r} is no address to listen on: {_BIND_FORMS}."
    if int(port[:6]) > 65535:
        return f"{value!r}: a port is from 0 to 65535."
    return (
        None
        if _is_host(host)
        else f"{value!r}: {host!r} is no host: {_BIND_FORMS}; 0.0.0.0 for every IPv4 address."
    )


def _is_host(text: str) -> bool:
    if text.startswith("[") and text.endswith("]"):
        return _is_address(text[1:-1].partition("%")[0], ipaddress.IPv6Address)
    if re.fullmatch(r"[0-9.]+", text):
        return _is_address(text, ipaddress.IPv4Address)
    return len(text) <= 253 and _HOST_NAME.fullmatch(text) is not None


def _is_address(text: str, form: Callable[[str], object]) -> bool:
    try:
        form(text)
    except ValueError:
        return False
    return True


def _limit_of_bytes(value: int) -> str | None:
    if value == 0 or 1024 <= value <= 2**60:
        return None
    return f"must be from 1KiB to 1073741824GiB, or 0 for no limit, not {value}."


def _base_path(value: str) -> str | None:
    if not value:
        return None
    if not value.startswith("/"):
        return f"{value!r} must begin with a slash: /{value}."
    if value.endswith("/") or "//" in value:
        return f"{value!r} must have no slash at its end and no two in a row; leave it empty for none."
    if not _VISIBLE.fullmatch(value) or set(value) & set("?#<>{}%\\"):
        return f"{value!r} must be a plain path, for example /hooks."
    return None


def _public_url(value: str | None) -> str | None:
    if value is None:
        return None
    wrong = "must be an http or https address with a host, for example https://hooks.example.org."
    if not _VISIBLE.fullmatch(value):
        return wrong
    try:
        url = urlsplit(value)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return wrong
    if not usable:
        return wrong
    if url.query or url.fragment or url.username is not None or url.password is not None:
        return f"the address must hold no user, query or fragment, for example https://{url.hostname}."
    return None


def _global_key(value: str | None) -> str | None:
    if value is None or (_VISIBLE.fullmatch(value) and len(value) <= 255):
        return None
    return "a key is at most 255 visible ASCII characters without spaces, as it travels in a header."


def _master_key(value: str | None) -> str | None:
    return None if value == CLEAR else _old_master_key(value or "")


def _old_master_key(value: str) -> str | None:
    try:
        if value:
            parse_master_key(value)
    except ValueError as error:
        return str(error)
    return None


def _network(value: str) -> str | None:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        pass
    else:
        return None
    try:
        return f"{value!r} has host bits set: write {ipaddress.ip_network(value, strict=False)}."
    except ValueError:
        return f"{value!r} is no network: write one such as 10.1.0.0/16, 192.168.1.7/32 or fd00::/8."


def _proxy(value: str | None) -> str | None:
    try:
        if value is not None:
            parse_proxy(value)
    except ValueError as error:
        return str(error)
    return None


def _trusted_proxy(value: str) -> str | None:
    broken = None if value == UNIX else _network(value)
    return f"{broken[:-1]}; unix stands for Unix sockets." if broken else None


def _named(value: str) -> str | None:
    return None if value.strip() and "\0" not in value else "must not be empty, nor hold a NUL character."


def _module(value: str) -> str | None:
    return (
        None
        if _MODULE.fullmatch(value)
        else f"{value!r} is no importable name: write it as in import company.hooks."
    )


_RULES: dict[str, Rule] = {
    "server.bind": _bind,
    "server.base_path": _base_path,
    "server.public_url": _public_url,
    "server.shutdown_grace": _any_time,
    "server.keep_alive_timeout": _some_time,
    "server.header_timeout": _some_time,
    "server.body_timeout": _some_time,
    "server.write_timeout": _some_time,
    "server.max_connections": _between(1, 1_000_000),
    "server.max_connections_per_address": _between(1, 1_000_000),
    "server.max_requests": _between(1, 1_000_000),
    "server.trusted_proxies": _trusted_proxy,
    "server.max_header": _some_bytes,
    "server.max_body": _some_bytes,
    "server.max_batch_body": _some_bytes,
    "server.max_batch_events": _between(1, 1_000_000),
    "auth.global_key": _global_key,
    "auth.instance_key_rate": _between(0, 1_000_000),
    "auth.global_key_rate": _between(0, 1_000_000),
    "auth.failed_attempts": _between(0, 1_000_000),
    "auth.failed_window": _some_time,
    "storage.path": _named,
    "storage.retention": _any_time,
    "storage.history_limit": _some_space,
    "storage.master_key": _master_key,
    "storage.old_master_keys": _old_master_key,
    "events.max_data": _some_bytes,
    "delivery.allow_networks": _network,
    "delivery.refused_ports": _between(1, 65535),
    "delivery.proxy": _proxy,
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
    "delivery.lane_buffer": _between(1, 100_000),
    "delivery.lane_idle": _some_time,
    "limits.deliveries": _between(0, 10**15),
    "limits.bytes": _limit_of_bytes,
    "limits.registration_deliveries": _between(0, 10**15),
    "limits.registration_bytes": _limit_of_bytes,
    "operations.backlog_threshold": _between(0, 10**15),
    "plugins.folders": _named,
    "plugins.names": _module,
    "plugins.disabled": _named,
    "plugins.optional": _named,
    "plugins.order": _named,
    "plugins.hook_timeout": _some_time,
}
