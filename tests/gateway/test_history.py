"""Reads of the history take turns: two of an instance at a time, and the operator's apart."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import NotFound
from tests.public.deliveries import TURN_TIMEOUT, DeliveryHistory
from tests.public.kernel import TooManyRequests
from tests.public.store import DeliveryPage, DeliveryQuery

PAGE = DeliveryPage([])


class SlowStore:
    """Reads end when they are let go. It counts them by instance."""

    def __init__(self) -> None:
        self.reading: list[str] = []
        self.free = trio.Event()

    async def list_deliveries(self, query: DeliveryQuery) -> DeliveryPage:
        self.reading.append(query.instance or "")
        await self.free.wait()
        return PAGE

    async def find_delivery(self, instance: str, name: str, **_: Any) -> None:
        self.reading.append(instance)
        await self.free.wait()


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def limited() -> list[str]:
    return []


@pytest.fixture
def history(store: SlowStore, limited: list[str]) -> DeliveryHistory:
    return DeliveryHistory(store, limited.append)  # type: ignore[arg-type]


def asked(instance: str, *, by_operator: bool = False) -> DeliveryQuery:
    return DeliveryQuery(instance=instance, without_global=not by_operator)


async def test_two_reads_of_an_instance_at_a_time(
    history: DeliveryHistory, store: SlowStore, limited: list[str], mock_clock: MockClock
) -> None:
    refused: list[float] = []

    async def refuse() -> None:
        with pytest.raises(TooManyRequests, match="2 reads of this instance") as caught:
            await history.list(asked("shop"))
        refused.append(caught.value.retry_after)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.list, asked("shop"))
        nursery.start_soon(history.list, asked("shop"))
        await wait_all_tasks_blocked()
        nursery.start_soon(refuse)
        nursery.start_soon(history.list, asked("bakery"))
        nursery.start_soon(history.list, asked("shop", by_operator=True))
        await wait_all_tasks_blocked()
        assert sorted(store.reading) == ["bakery", "shop", "shop", "shop"]
        assert not refused
        mock_clock.jump(TURN_TIMEOUT)
        await wait_all_tasks_blocked()
        assert refused == [1.0]
        store.free.set()
    assert limited == ["instance_reads"]
    assert len(history.turns) == 0


async def test_the_third_read_waits_for_its_turn(history: DeliveryHistory, store: SlowStore) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(history.list, asked("shop"))
        await wait_all_tasks_blocked()
        assert store.reading == ["shop"] * 2
        store.free.set()
    assert store.reading == ["shop"] * 3
    assert len(history.turns) == 0


async def test_a_list_of_several_instances_takes_the_turn_of_the_first(
    history: DeliveryHistory, store: SlowStore
) -> None:
    async with trio.open_nursery() as nursery:
        for among in (("shop", "shop2"),) * 3 + (("bakery", "bakery2"),):
            query = DeliveryQuery(instance=None, among=among, without_global=True)
            nursery.start_soon(history.list, query)
        await wait_all_tasks_blocked()
        assert len(store.reading) == 3  # the third one of the shop waits, and the bakery's does not
        store.free.set()


async def test_a_cancelled_read_leaves_its_turn(history: DeliveryHistory, store: SlowStore) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(history.list, asked("shop"))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(history.turns) == 0
    store.free.set()
    assert await history.list(asked("shop")) == PAGE


async def test_what_is_not_found(history: DeliveryHistory, store: SlowStore) -> None:
    store.free.set()
    with pytest.raises(NotFound, match="'shop' has no delivery 'dlv_1'"):
        await history.find("shop", "dlv_1")
