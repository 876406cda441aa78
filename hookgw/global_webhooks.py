"""The registrations of the configuration, which hear every instance.

They have no place on the shelves: the configuration is theirs. Only what must outlive a restart and
is not in the configuration is kept: a secret that was made for one, and the lanes that one had, so that
what is pending follows it to another URL. Both are kept by label; the label that a block without one
gets is made of its URL, without user and password, so that moving blocks about in the file changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookgw.dialects.registrations import parse_registration
from hookgw.errors import ConfigError, Invalid
from hookgw.events import Catalog
from hookgw.instances import check_name
from hookgw.registrations import GLOBAL_INSTANCE, Registration, Secret, lanes_of
from hookgw.signing_keys import signature_of
from hookgw.store import Store
from hookgw.userinfo import without_user

_ID_PREFIX = "global_"


def is_global(registration_id: str) -> bool:
    """Whether the id is that of a registration of the configuration, present or former."""
    return registration_id.startswith(_ID_PREFIX)


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
        store: keeps the secrets that are made, and notes that what is pending in lanes that a block no
            longer has is to be moved to those that it has.
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
    return msgspec.structs.replace(fresh, id=f"{_ID_PREFIX}{label}"), change.secret is not msgspec.UNSET


async def _with_kept_secret(registration: Registration, store: Store) -> Registration:
    """The registration with the secret that was made for it once, if that signs as it is to."""
    key = f"global_webhooks.{registration.label}.secret"
    kept = await store.get_value(key)
    if isinstance(kept, str) and signature_of(kept) is registration.signature:
        return msgspec.structs.replace(registration, secrets=(Secret(kept),))
    await store.put_value(key, registration.secrets[0].value)
    return registration


async def _move_pending(registration: Registration, store: Store) -> None:
    """Have what is pending for it moved from the lanes that it had at the last start."""
    if not registration.enabled:
        return
    key, lanes = f"global_webhooks.{registration.label}.lanes", list(lanes_of(registration))
    before = await store.get_value(key)
    if before != lanes:
        await store.put_lanes(key, lanes, registration.id, before or [])
