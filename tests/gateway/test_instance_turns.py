"""Jobs of one instance that wait for a change of it."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw.testing import GatewayKit
from tests.public.core import Registry, instance_turn


async def test_jobs_that_wait_for_the_end_of_a_change_go_on_after_it(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took the lock of changes to wait, and gave its turn back because another one had the lock."""
    gateway, looks = hookgw_gateway.gateway, list[str]()
    is_changing = Registry.is_changing

    def look(registry: Registry, instance: str) -> bool:
        looks.append(instance)
        assert len(looks) < 100, "the jobs wait for each other"
        return is_changing(registry, instance)

    async def take_turn() -> None:
        async with instance_turn(gateway.jobs, gateway.registry, "shop"):
            taken.append("shop")

    monkeypatch.setattr(Registry, "is_changing", look)
    taken = list[str]()
    async with trio.open_nursery() as nursery, gateway.registry.changing("shop"):
        for _ in range(3):
            nursery.start_soon(take_turn)
        await wait_all_tasks_blocked()
        assert taken == []
    assert len(taken) == 3
