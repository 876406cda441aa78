"""The only node answers what a node of a fleet answers, and the same at every time."""

from collections.abc import Collection
from typing import cast

import trio

from tests.public.config import FleetSettings
from tests.public.core import ThisNode, Work
from tests.public.records import SHARDS


async def test_the_only_node_has_every_instance_for_ever() -> None:
    node = ThisNode(FleetSettings(node="one"))
    async with node.starting():
        assert node.holds("shop")
    node.check("shop")
    assert set(node.shards) == set(range(SHARDS))
    assert node.may_act()
    assert node.is_responsible()
    assert node.epoch_of("shop") is None
    assert [(found.name, shards) for found, shards in node.view.counted()] == [("one", SHARDS)]
    await node.hand_over(0.0)
    assert node.holds("shop")


async def test_the_only_node_takes_all_shards_once_at_its_start(nursery: trio.Nursery) -> None:
    taken = list[Collection[int]]()

    class Noted:
        async def acquire(self, shards: Collection[int]) -> None:
            taken.append(shards)

    await nursery.start(ThisNode(FleetSettings()).run, cast("Work", Noted()))
    assert [sorted(shards) for shards in taken] == [list(range(SHARDS))]
