"""The registrations of the configuration, which hear every instance.

They have no place on the shelves: the configuration is theirs. Only what must outlive a restart and
is not in the configuration is kept: a secret that was made for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.dialects.registrations import parse_registration
from hookgw.errors import ConfigError, Invalid
from hookgw.events import Catalog
from hookgw.instances import INSTANCE_NAME
from hookgw.registrations import GLOBAL_INSTANCE, Registration, Secret, new_secret
from hookgw.store import Store


async def read_global_webhooks(
    blocks: Sequence[dict[str, Any]], catalog: Catalog, store: Store
) -> tuple[Registration, ...]:
    """The registrations that ``global_webhooks`` asks for.

    Args:
        blocks: each as the body of a ``set``, and a ``label``.
        catalog: the known event kinds.
        store: keeps the secrets that are made.

    Raises:
        ConfigError: a block breaks a rule; every problem is named with its place.
    """
    found: dict[str, Registration] = {}
    problems: list[str] = []
    for index, block in enumerate(blocks):
        place = f"global_webhooks[{index}]"
        try:
            registration = _read(block, f"webhook-{index + 1}", catalog)
        except Invalid as error:
            problems += (f"{place}: {message}" for message in error.messages)
            continue
        if registration.label in found:
            problems.append(f"{place}.label: {registration.label!r} is there twice; give each its own.")
        found[registration.label] = registration
    if problems:
        raise ConfigError(*problems)
    return tuple([await _with_secret(registration, store) for registration in found.values()])


def _read(block: dict[str, Any], default_label: str, catalog: Catalog) -> Registration:
    label = block.get("label", default_label)
    if not isinstance(label, str) or not INSTANCE_NAME.fullmatch(label):
        raise Invalid("label must be 1 to 128 letters, digits, '.', '_' or '-'.")
    change, warnings = parse_registration({k: v for k, v in block.items() if k != "label"}, catalog)
    if warnings:
        raise Invalid(*warnings)
    fresh = change.apply(None, instance=GLOBAL_INSTANCE, label=label, now=0.0)
    given = () if change.secret is msgspec.UNSET else fresh.secrets
    return msgspec.structs.replace(fresh, id=f"global_{label}", secrets=given)


async def _with_secret(registration: Registration, store: Store) -> Registration:
    """The registration with the secret it was given, or with the one that was made for it once."""
    if registration.secrets:
        return registration
    key = f"global_webhooks.{registration.label}.secret"
    kept = await store.get_value(key)
    if not isinstance(kept, str):
        kept = new_secret().value
        await store.put_value(key, kept)
    return msgspec.structs.replace(registration, secrets=(Secret(kept),))
