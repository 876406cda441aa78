"""The registration of the settings to which operational events go.

It is hookgw's own: no instance has it, no event of an instance goes to it, and it is never disabled.
Like those of ``global_webhooks`` it has no place on the shelves. Only what must outlive a restart and is
not in the configuration is kept: a secret that was made for it, and its lane, so that what is pending
follows it to another URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgw.config.settings import OperationsSettings
from hookgw.models.operational_kinds import OPERATIONAL_CATALOG, OPERATIONAL_KINDS, OPERATIONS_ID
from hookgw.models.registrations import GLOBAL_INSTANCE, Registration, Secret, new_secret

if TYPE_CHECKING:
    from hookgw.store import Store


_SECRET_KEY = "operations.secret"  # noqa: S105 - where a secret is kept
_LANE_KEY = "operations.lane"


def wanted_kinds(settings: OperationsSettings) -> frozenset[str]:
    """The names of the kinds that go to the URL."""
    named = (OPERATIONAL_CATALOG.resolve(name, "operations.events").name for name in settings.events)
    return frozenset(named) or frozenset(kind.name for kind in OPERATIONAL_KINDS)


def operations_lane(registration: Registration) -> str:
    """The key of its lane, which no other registration can have: a URL has no fragment."""
    return f"{registration.address}#{OPERATIONS_ID}"


async def read_operations(settings: OperationsSettings, store: Store) -> Registration | None:
    """The registration that the settings ask for; ``None`` where they name no URL.

    Args:
        settings: checked by :mod:`hookgw.config.rules`.
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
