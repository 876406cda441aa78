"""Limits follow the number of nodes that live."""

from typing import Any, cast

import trio

from tests.public.fleet import FleetNode, divide_limits
from tests.public.records import DEAD_AFTER, FleetMember, FleetView


class Seen:
    """A node that sees what the test shows it."""

    name = "a"

    def __init__(self, *ages: float) -> None:
        self._viewed = trio.Event()
        self.show(*ages)

    def show(self, *ages: float, leaving: bool = False) -> None:
        nodes = (FleetMember(str(n), n, "", age, leaving) for n, age in enumerate(ages, 1))
        self.view = FleetView(tuple(nodes))
        self._viewed.set()
        self._viewed = trio.Event()

    async def wait_viewed(self) -> None:
        await self._viewed.wait()


class Divided:
    def __init__(self) -> None:
        self.by: list[int] = []

    def divide(self, nodes: int) -> None:
        self.by.append(nodes)


async def test_limits_follow_the_nodes_that_live(nursery: Any, autojump_clock: Any) -> None:
    fleet, limits, others = Seen(0.1), Divided(), Divided()
    nursery.start_soon(divide_limits, cast("FleetNode", fleet), limits, others)
    await trio.testing.wait_all_tasks_blocked()
    assert limits.by == []  # alone, nothing changes
    for ages in ((0.1, 0.2), (0.1, 0.2), (0.1, 0.2, 0.3), (0.1, DEAD_AFTER, 0.3), (0.1,), ()):
        fleet.show(*ages)
        await trio.testing.wait_all_tasks_blocked()
    assert limits.by == others.by == [2, 3, 2, 1]
    fleet.show(0.1, 0.2, leaving=True)  # they still send what they have begun
    await trio.testing.wait_all_tasks_blocked()
    assert limits.by[-1] == 2
