"""What a selection means for the registrations and instances that are known now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import trio

from hookgw.core.access import check_reach, reaches, within
from hookgw.core.registry import Registry
from hookgw.core.this_node import Refresh
from hookgw.kernel.target_url import parse_destination
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Principal
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration, is_global
from hookgw.records.selection import DeliverySelection
from hookgw.store import DeliveryQuery

_NAMED = 50
"""Names of instances in an entry of the audit."""
_AT_ONCE = 200
"""Registrations that are looked at before others take turns."""


def is_receiver(selection: DeliverySelection, registration: Registration) -> bool:
    """Return whether a selection has the deliveries to a registration.

    A label means a registration of the instance, and not one of the configuration.
    """
    if is_global(registration.id) and (selection.without_global or selection.label is not None):
        return False
    if selection.label is not None and registration.label != selection.label:
        return False
    if selection.host is None:
        return True
    try:
        target = parse_destination(registration.url)
    except ValueError:  # the text of a disabled webhook
        return False
    host = target.server_hostname
    with_port = f"[{host}]:{target.port}" if ":" in host else f"{host}:{target.port}"
    return selection.host in (host, with_port)


def receivers(registry: Registry, instance: str, selection: DeliverySelection) -> Iterator[Registration]:
    """Return the registrations of an instance's events that a selection has."""
    return (one for one in registry.hearing(instance) if is_receiver(selection, one))


def limited(selection: DeliverySelection, *, without_global: bool) -> DeliverySelection:
    """Return a selection without the deliveries that are the operator's, if the caller may not see them."""
    return msgspec.structs.replace(selection, without_global=without_global or selection.without_global)


def limited_to(names: Sequence[str], principal: Principal, selection: DeliverySelection) -> DeliverySelection:
    """Return the selection of a job over several instances: only a key for everything leaves it open.

    The job looks its instances up again later, when there may be more of them, with other tags.
    """
    if principal.is_global:
        return selection
    tags = tuple(sorted({*selection.tags, *principal.reach.tags}))
    named = msgspec.structs.replace(selection, instances=tuple(names), tags=tags)
    return limited(named, without_global=True)


async def learn_named(
    refresh: Refresh,
    registry: Registry,
    principal: Principal,
    selection: DeliverySelection,
    instance: str | None = None,
) -> None:
    """Read other nodes' changes if a selection names what is unknown here: it may be new.

    Args:
        instance: to which its label belongs.

    Raises:
        StorageUnavailable: the database cannot be asked.
    """
    names = [name for name in selection.instances if not name.endswith("*")]
    is_known = all(registry.find_instance(one) and reaches(registry, principal, one) for one in names)
    if instance is not None and selection.label is not None:
        is_known = is_known and registry.find(instance, selection.label) is not None
    if not is_known:
        await refresh.catch_up()


def check_label(registry: Registry, instance: str, selection: DeliverySelection) -> None:
    """Raise ``NotFound`` if an instance has no registration of the label."""
    if selection.label is not None:
        registry.get(instance, selection.label)


def check_names(registry: Registry, principal: Principal, selection: DeliverySelection) -> None:
    """Check the instances that a selection names without ``*``.

    Raises:
        ForeignKey: the key may not see one of them.
        NotFound: there is no such instance.
    """
    for name in selection.instances:
        if not name.endswith("*"):
            check_reach(registry, principal, name)
            registry.instance(name)


def selected(registry: Registry, principal: Principal, selection: DeliverySelection) -> list[str]:
    """Return the names of the instances that a selection has, sorted, within the reach of a key."""
    return [one.name for one in within(registry, principal) if selection.has(one)]


def instances_of(
    registry: Registry, principal: Principal, selection: DeliverySelection
) -> tuple[str, ...] | None:
    """Return the instances that a list is for, as :func:`selected` does; ``None`` for all.

    Raises:
        ForeignKey, NotFound: as :func:`check_names` does.
    """
    check_names(registry, principal, selection)
    if principal.is_global and not selection.instances and not selection.tags:
        return None
    return tuple(selected(registry, principal, selection))


def one_or_several(names: tuple[str, ...] | None) -> tuple[str | None, tuple[str, ...] | None]:
    """Return what a query has as ``instance`` and ``among``: the store reads one instance in another way."""
    return (names[0], None) if names is not None and len(names) == 1 else (None, names)


async def query_of(
    registry: Registry, principal: Principal, selection: DeliverySelection, *, cursor: str | None, limit: int
) -> DeliveryQuery | None:
    """Return the query of a list over several instances; ``None`` if the key reaches none of them.

    Raises:
        ForeignKey, NotFound: as :func:`check_names` does.
    """
    names = instances_of(registry, principal, selection)
    if names == ():
        return None
    instance, among = one_or_several(names)
    return DeliveryQuery(
        **msgspec.structs.asdict(selection),
        instance=instance,
        among=among,
        registrations=await all_receivers(registry, principal, selection),
        cursor=cursor,
        limit=limit,
    )


def details_of(selection: DeliverySelection) -> dict[str, str | None]:
    """Return what the audit says of a selection: not who it is about, nor what they wrote."""
    status = selection.status
    return {
        "instances": _some(selection.instances),
        "tags": ", ".join("=".join(tag) for tag in selection.tags) or None,
        "label": selection.label,
        "host": selection.host,
        "kinds": ", ".join(selection.kinds) or None,
        "state": selection.state,
        "status": None if status is None else "-".join(str(one) for one in dict.fromkeys(status)),
        "error": selection.error,
        "person": None if selection.person is None else "given",
        "text": None if selection.text is None else "given",
        "since": None if selection.since is None else rfc3339(selection.since),
        "until": None if selection.until is None else rfc3339(selection.until),
        "finishedSince": None if selection.finished_since is None else rfc3339(selection.finished_since),
        "failedSince": None if selection.failed_since is None else f"dlv_{selection.failed_since}",
    }


def _some(names: Sequence[str]) -> str | None:
    shown = ", ".join(names[:_NAMED]) or None
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"


def receiver_ids(registry: Registry, instance: str, selection: DeliverySelection) -> tuple[str, ...] | None:
    """Return the ids of the receivers of an instance's events; ``None`` if that is no filter."""
    if selection.label is None and selection.host is None:
        return None
    return tuple(one.id for one in receivers(registry, instance, selection))


async def all_receivers(
    registry: Registry, principal: Principal, selection: DeliverySelection
) -> tuple[str, ...] | None:
    """Return the ids of the receivers in all instances; ``None`` if that is no filter."""
    if selection.label is None and selection.host is None:
        return None
    found = []
    for number, one in enumerate(registry.registrations()):
        if number % _AT_ONCE == _AT_ONCE - 1:
            await trio.lowlevel.checkpoint()
        is_everywhere = one.instance == GLOBAL_INSTANCE
        is_own = is_global(one.id) if is_everywhere else reaches(registry, principal, one.instance)
        if is_own and is_receiver(selection, one):
            found.append(one.id)
    return tuple(found)


def for_one(selection: DeliverySelection, registry: Registry, instance: str) -> DeliverySelection | None:
    """Return a selection for one of the instances that it has; ``None`` if it has no webhook of the label."""
    if selection.label is not None and registry.find(instance, selection.label) is None:
        return None
    return msgspec.structs.replace(selection, instances=(), tags=())
