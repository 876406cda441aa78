"""The registrations of the configuration, which hear every instance.

They have no place on the shelves: the configuration is theirs. Only what must outlive a restart and
is not in the configuration is kept: a secret that was made for one, and the lanes and the ordering that one
had, so that what is pending follows it to another URL or partition. Both are kept by label; the label that a
block without one gets is made of its URL, without user and password, so that moving blocks about in the file
changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookgw.models.errors import ConfigError, Invalid
from hookgw.models.events import Catalog
from hookgw.models.instances import check_name
from hookgw.models.masking import without_user
from hookgw.models.registrations import GLOBAL_ID_PREFIX, GLOBAL_INSTANCE, Registration, Secret, lanes_of
from hookgw.models.signing_keys import signature_of
from hookgw.parsing.registrations import parse_registration
from hookgw.store import Store


async def read_global_webhooks(
    blocks: Sequence[dict[str, Any]],
    catalog: Catalog,
    store: Store,
    check_options: Callable[[Registration], None] = lambda _: None,
) -> tuple[Registration, ...]:
    """The registrations that ``global_webhooks`` asks for.

    Args:
        blocks: each as the body of a ``set``, and a ``label``.
        catalog: the known event kinds.
        store: keeps the secrets that are made, and notes that what is pending is to be moved where a
            block has other lanes, or another ordering, than it had.
        check_options: raises ``Invalid`` where a plugin refuses its options.

    Raises:
        ConfigError: a block breaks a rule; every problem is named with its place.
    """
    found: dict[str, tuple[Registration, bool]] = {}
    problems: list[str] = []
    for index, block in enumerate(blocks):
        place = f"global_webhooks[{index}]"
        try:
            registration, has_secret = _read(block, catalog)
            check_options(registration)
        except Invalid as error:
            problems += (f"{place}.{message}" for message in error.messages)
            continue
        if registration.label in found:
            problems.append(f"{place}.label: {registration.label!r} is there twice; give each its own.")
        found[registration.label] = registration, has_secret
    if problems:
        raise ConfigError(*problems)
    ready = [
        registration if has_secret else await _with_kept_secret(registration, store)
        for registration, has_secret in found.values()
    ]
    for registration in ready:
        await _move_pending(registration, store)
    return tuple(ready)


def _read(block: dict[str, Any], catalog: Catalog) -> tuple[Registration, bool]:
    """The registration of a block, and whether the block gives its secret."""
    change, warnings = parse_registration({k: v for k, v in block.items() if k != "label"}, catalog)
    if warnings:  # what a caller is merely told of stops the start here, so nothing "was ignored"
        raise Invalid(*(f"{warning.removesuffix('; it was ignored.')}." for warning in warnings))
    label = check_name(
        block.get("label", f"webhook-{zlib.crc32(without_user(change.url).encode()):08x}"), "label"
    )
    fresh = change.apply(None, instance=GLOBAL_INSTANCE, label=label, now=0.0)
    return msgspec.structs.replace(fresh, id=f"{GLOBAL_ID_PREFIX}{label}"), change.secret is not msgspec.UNSET


async def _with_kept_secret(registration: Registration, store: Store) -> Registration:
    """The registration with the secret that was made for it once, if that signs as it is to."""
    key = f"global_webhooks.{registration.label}.secret"
    kept = await store.get_value(key)
    if isinstance(kept, str) and signature_of(kept) is registration.signature:
        return msgspec.structs.replace(registration, secrets=(Secret(kept),))
    await store.put_value(key, registration.secrets[0].value)
    return registration


async def _move_pending(registration: Registration, store: Store) -> None:
    """Have what is pending for it moved from where the lanes and the ordering of the last start put it."""
    if not registration.enabled:
        return
    key = f"global_webhooks.{registration.label}.lanes"
    now = {"lanes": list(lanes_of(registration)), "ordering": registration.ordering.value}
    before = await store.get_value(key)
    if before != now:
        await store.put_lanes(key, now, registration.id, _lanes_kept(before))


def _lanes_kept(value: Any) -> list[str]:
    """The lanes of a value that was kept; before there was more to keep they were all of it."""
    lanes: list[str] = value["lanes"] if isinstance(value, dict) else value or []
    return [without_user(lane) for lane in lanes]
