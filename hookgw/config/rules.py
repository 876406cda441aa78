"""Checks the values of the settings: each value by its type, and values that must fit together. No I/O."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, get_args, get_origin

import msgspec

from hookgw.config.people import LONGEST_PERSON, is_person
from hookgw.config.settings import Section, Settings, TagLimits
from hookgw.config.yaml_reader import join
from hookgw.kernel.errors import Invalid
from hookgw.kernel.rates import parse_rate
from hookgw.kernel.rules import check_custom_headers, check_secret, check_url
from hookgw.kernel.units import Size
from hookgw.records.instances import FOREIGN, check_name
from hookgw.records.operational_kinds import OPERATIONAL_CATALOG
from hookgw.records.tags import TAG_PART


def broken_rules(settings: Settings) -> Iterator[tuple[str, str]]:  # noqa: C901 -- a list of rules
    """Check all values. Yield the path of a key (``delivery.schedule[2]``) and what to write instead."""
    yield from _broken_values(Settings, settings, "")
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


def _broken_values(kind: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Check a value, and all within it, by the rules in its type; see :mod:`hookgw.config.values`."""
    if isinstance(kind, type) and issubclass(kind, Section):
        for field in msgspec.structs.fields(kind):
            yield from _broken_values(field.type, getattr(value, field.name), join(path, field.encode_name))
    elif get_origin(kind) is Annotated:
        sentences = (rule(value) for rule in kind.__metadata__)
        yield from ((path, sentence) for sentence in sentences if sentence is not None)
    elif get_origin(kind) is tuple:
        for index, item in enumerate(value):
            yield from _broken_values(get_args(kind)[0], item, f"{path}[{index}]")
    elif value is not None and types.NoneType in get_args(kind):
        yield from _broken_values(get_args(kind)[0], value, path)


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
