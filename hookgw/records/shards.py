"""Shards divide the work among the nodes of a fleet. No I/O.

A shard has instances. All of an instance is on one node: its connector, its registrations and their lanes. So
one process decides everything that concerns the instance (a pause, a rate, a re-partition, a login), as
without a fleet. A registration of the configuration, which hears every instance, has a shard by its id.
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
    is_global = registration.instance == GLOBAL_INSTANCE
    return shard_of(registration.id if is_global else registration.instance)


def share_targets(held: Mapping[str, int], shards: int = SHARDS) -> dict[str, int]:
    """Return how many shards each live node should hold, from how many it holds now.

    The targets differ by at most one, and add up to all shards. They move as few shards as that allows: if
    the shards cannot be divided evenly, the nodes that hold most hold one more. Every node computes the same
    targets from the same figures.
    """
    if not held:
        return {}
    each, more = divmod(shards, len(held))
    by_holding = sorted(held, key=lambda node: (-held[node], node))
    return {node: each + (index < more) for index, node in enumerate(by_holding)}
