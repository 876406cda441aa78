"""Calls that wait for the database: they are answered in time, and only if the database is the reason."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from tests.gateway.fleet.test_fleet_node import Database, Members, fleet_node
from tests.public.fleet import ANSWER_AFTER, HEARTBEAT, SLOW, DatabaseCalls
from tests.public.kernel import StorageUnavailable

pytestmark = pytest.mark.usefixtures("autojump_clock")

ANSWERED_WITHIN = 10.0


class World:
    """A node with a database, and heartbeats."""

    def __init__(self) -> None:
        self.members = Members(Database())
        self.node = fleet_node(self.members, "a")
        self.calls = DatabaseCalls(self.node.is_database_slow)
        self.answers: list[tuple[float, str]] = []

    async def answer(self, error: StorageUnavailable) -> None:
        self.answers.append((trio.current_time(), str(error)))

    async def beat(self) -> None:
        while True:
            with suppress(StorageUnavailable):
                await self.node._beat()
            await trio.sleep(HEARTBEAT)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running(World()) as world:
        yield world


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    await world.node.join()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.beat)
        nursery.start_soon(world.calls.run)
        yield world
        nursery.cancel_scope.cancel()


async def test_a_call_that_takes_long_while_the_database_is_well_is_left_alone(world: World) -> None:
    ended = False
    with world.calls.waiting(world.answer):
        await trio.sleep(60)  # a connector may take a minute
        ended = True
    assert ended
    assert world.answers == []


@pytest.mark.parametrize("kind", ["slow", "away", "silent"])
async def test_a_call_is_answered_in_time_if_the_database_is_not_well(world: World, kind: str) -> None:
    if kind == "slow":
        world.members.delay = 1.25 * SLOW
    elif kind == "silent":
        world.members.delay = 1000.0
    else:
        world.members.is_cut_off = True
    await trio.sleep(5)
    began = trio.current_time()
    with world.calls.waiting(world.answer):
        await trio.sleep_forever()
    [(at, said)] = world.answers
    assert ANSWER_AFTER <= at - began <= ANSWERED_WITHIN
    assert "may have been carried out" in said


async def test_what_a_call_has_begun_goes_on(world: World) -> None:
    world.members.is_cut_off = True
    await trio.sleep(5)
    done = False
    with world.calls.waiting(world.answer), trio.CancelScope(shield=True):
        await trio.sleep(20)
        done = True
    assert done
    assert len(world.answers) == 1


async def test_a_call_goes_on_if_the_database_is_well_again_in_time(world: World) -> None:
    world.members.is_cut_off = True
    await trio.sleep(5)
    with world.calls.waiting(world.answer):
        await trio.sleep(ANSWER_AFTER / 2)
        world.members.is_cut_off = False
        await trio.sleep(ANSWER_AFTER)
    assert world.answers == []
