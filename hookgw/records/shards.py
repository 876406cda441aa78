"""Shards: the parts of the work that the nodes of a fleet divide among themselves. No I/O.

A shard has instances. All of an instance is on one node: its connector, its registrations and their lanes. So
everything that concerns one instance (a pause, a rate, a re-partition, a login) is decided in one process, as
it is without a fleet. A registration of the configuration, which hears every instance, has a shard by its id.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from hookgw.records.registrations import GLOBAL_INSTANCE, Registration

SHARDS = 256
"""How many shards there are. The nodes of a fleet must agree on it, and on :func:`shard_of`."""


def shard_of(name: str) -> int:
    """Return the shard of an instance's name, or of the id of a registration of the configuration."""
    return zlib.crc32(name.encode()) % SHARDS


def shard_of_registration(registration: Registration) -> int:
    """Return the shard that a registration's lanes are in: its instance's."""
    is_global = registration.instance == GLOBAL_INSTANCE
    return shard_of(registration.id if is_global else registration.instance)


def share_targets(held: Mapping[str, int], shards: int = SHARDS) -> dict[str, int]:
    """Return how many shards each node should hold.

    The targets differ by at most one, and add up to all shards. They move as few shards as that allows: if
    the shards cannot be divided evenly, the nodes that hold most hold one more.

    Args:
        held: how many shards each live node holds now. Every node that computes this from the same figures
            gets the same targets.
        shards: how many there are.
    """
    if not held:
        return {}
    each, more = divmod(shards, len(held))
    by_holding = sorted(held, key=lambda node: (-held[node], node))
    return {node: each + (index < more) for index, node in enumerate(by_holding)}
