"""The registration of the settings to which operational events go.

It is hookgw's own: no instance has it, no event of an instance goes to it, and it is never disabled.
Like those of ``global_webhooks`` it has no place on the shelves. Only what must outlive a restart and is
not in the configuration is kept: a secret that was made for it, and its lane, so that what is pending
follows it to another URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hookgw.config.settings import OperationsSettings
from hookgw.models.errors import Invalid
from hookgw.models.events import Catalog
from hookgw.models.operational_kinds import OPERATIONAL_KINDS
from hookgw.models.registrations import GLOBAL_INSTANCE, Registration, Secret, new_secret
from hookgw.parsing.headers import check_headers
from hookgw.parsing.registrations import check_secret, check_url

if TYPE_CHECKING:
    from hookgw.store import Store

OPERATIONS_ID = "operations"
"""The id of the registration; those of others begin with ``reg_`` or ``global_``."""

_SECRET_KEY = "operations.secret"  # noqa: S105 - where a secret is kept
_LANE_KEY = "operations.lane"
_CATALOG = Catalog(OPERATIONAL_KINDS)


def broken_operations(settings: OperationsSettings) -> Iterator[tuple[str, str]]:
    """What makes no sense in the settings.

    Yields:
        Pairs of a key's path and a sentence that says what would be right.
    """
    checks: list[tuple[str, Any, Callable[[Any, str], object]]] = [
        ("operations.url", settings.url, check_url),
        *((f"operations.events[{i}]", name, _CATALOG.resolve) for i, name in enumerate(settings.events)),
        ("operations.headers", settings.headers, check_headers),
        ("operations.secret", settings.secret, check_secret),
    ]
    for path, value, check in checks:
        try:
            if value is not None:
                check(value, path)
        except Invalid as error:
            yield from ((path, message.removeprefix(path).lstrip(".: ")) for message in error.messages)


def wanted_kinds(settings: OperationsSettings) -> frozenset[str]:
    """The names of the kinds that go to the URL."""
    named = (_CATALOG.resolve(name, "operations.events").name for name in settings.events)
    return frozenset(named) or frozenset(kind.name for kind in OPERATIONAL_KINDS)


def operations_lane(registration: Registration) -> str:
    """The key of its lane, which no other registration can have: a URL has no fragment."""
    return f"{registration.address}#{OPERATIONS_ID}"


async def read_operations(settings: OperationsSettings, store: Store) -> Registration | None:
    """The registration that the settings ask for; ``None`` where they name no URL.

    Args:
        settings: checked by :func:`broken_operations`.
        store: keeps the secret that is made where none is given; what is pending in the lane of another
            URL is moved to this one's.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    if settings.url is None:
        return None
    registration = Registration(
        id=OPERATIONS_ID,
        instance=GLOBAL_INSTANCE,
        label=OPERATIONS_ID,
        url=settings.url,
        headers=settings.headers,
        secrets=(Secret(settings.secret or await _kept_secret(store)),),
    )
    await _move_pending(operations_lane(registration), store)
    return registration


async def _kept_secret(store: Store) -> str:
    kept = await store.get_value(_SECRET_KEY)
    if not isinstance(kept, str):
        kept = new_secret().value
        await store.put_value(_SECRET_KEY, kept)
    return kept


async def _move_pending(lane: str, store: Store) -> None:
    before = await store.get_value(_LANE_KEY)
    if before != lane:
        left = [before] if isinstance(before, str) else []
        await store.put_lanes(_LANE_KEY, lane, OPERATIONS_ID, left)
    noted = (await store.load_moves()).get(OPERATIONS_ID)
    if noted:
        await store.relane(OPERATIONS_ID, noted, lane)
