"""What completes a search of deliveries, from what the reader may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from hookgw.core.access import reaches, within
from hookgw.core.registry import Registry
from hookgw.deliveries.search import QUALIFIERS
from hookgw.kernel.errors import NotFound
from hookgw.kernel.target_url import parse_destination
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import DeliveryState
from hookgw.records.selection import DeliverySelection

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

MOST_LOOKED = 2_000
"""Instances whose tags, labels and hosts are looked at."""
_OF_DATA = ("person", "text")
"""Filters whose matches tell what is in payloads."""
_MOMENTS = ("1h", "today", "yesterday", "7d")
_STATUSES = ("2xx", "4xx", "5xx", "404", "422", "429", "500", "502", "503")


def names_reached(registry: Registry, principal: Principal, name: str) -> bool:
    """Return whether a name is that of an instance within reach."""
    return registry.find_instance(name) is not None and reaches(registry, principal, name)


def reaches_name(registry: Registry, principal: Principal) -> Callable[[str], bool]:
    return lambda name: names_reached(registry, principal, name)


def tagged(
    registry: Registry, principal: Principal, tag: str, selection: DeliverySelection
) -> tuple[str, ...]:
    """Return the names of instances with a tag of this value, whatever its name; ``NotFound`` for none."""
    names = tuple(
        one.name
        for one in within(registry, principal)
        if tag in one.tags.values() and selection.names(one.name)
    )
    if not names:
        raise NotFound.of("tag.no_instance", "No instance has the tag {tag!r}.", tag=tag[:128])
    return names


def suggestions(gateway: Gateway, principal: Principal, name: str, begun: str) -> Iterator[str]:
    """Yield values of a qualifier that begin so, in lower case; without one, qualifiers and instances."""
    for one in dict.fromkeys(_values(gateway, principal, QUALIFIERS.get(name, ""), begun)):
        if one.casefold().startswith(begun):
            yield f'"{one}"' if " " in one else one


def _values(gateway: Gateway, principal: Principal, filter_name: str, begun: str) -> Iterator[str]:
    may_see_data = principal.rights.has(Right.PAYLOADS)
    known = {
        "state": [*DeliveryState],
        "status": _STATUSES,
        "kind": gateway.catalog.stored(),
        "since": _MOMENTS,
        "until": _MOMENTS,
        "": [f"{one}:" for one, name in QUALIFIERS.items() if may_see_data or name not in _OF_DATA],
    }
    yield from known.get(filter_name, ())
    if filter_name == "instance" or (begun and not filter_name):
        yield from (one.name for one in within(gateway.registry, principal))
    if filter_name not in ("tag", "label", "host"):
        return
    for instance in islice(within(gateway.registry, principal), MOST_LOOKED):
        if filter_name == "tag":
            yield from (f"{key}={value}" for key, value in instance.tags.items())
            yield from instance.tags.values()
            continue
        for registration in gateway.registry.of_instance(instance.name):
            yield registration.label if filter_name == "label" else _host(registration.url)


def _host(url: str) -> str:
    try:
        return parse_destination(url).server_hostname
    except ValueError:
        return ""
