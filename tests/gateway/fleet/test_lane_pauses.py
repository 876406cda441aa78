"""A job of one node changes what waits in a lane of another: that lane rests meanwhile."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from hookgw import Registration
from hookgw.fleet import lane_pauses
from hookgw.testing import Answer, Received, Receiver, answer, open_receiver
from tests.gateway.fleet.test_two_nodes import Node, node, settled
from tests.public.core import PendingDeliveries, Registry
from tests.public.fleet import (
    HELD_FOR,
    PATIENCE,
    RENEW_EVERY,
    AllNodes,
    Gathered,
    LanePauses,
    PauseAsked,
    PausePart,
)
from tests.public.lanes import Dispatcher
from tests.support.postgres import PostgresServer
from tests.support.waits import until

WEBHOOK = "global_audit"
ANA = "5511999@s.whatsapp.net"
# Of either node; the webhook's lane is on one of them.
OF_A, OF_B = "shop", "lane0"


@dataclass
class Two:
    """Two nodes, and a webhook of the configuration.

    Attributes:
        owner: the node that has the webhook's lane.
        other: the other one, which has the instance.
        instance: it has three events, ``e0`` of which is in flight to the webhook, before one of `bystander`.
        may_answer: lets the receiver answer ``e0``.
    """

    owner: Node
    other: Node
    instance: str
    bystander: str
    receiver: Receiver
    may_answer: trio.Event

    async def states(self) -> dict[str, str]:
        """Return the states of the instance's deliveries, by event."""
        listed = await self.other.call("GET", f"/delivery/list/{self.instance}")
        return {one["eventId"]: one["state"] for one in listed["deliveries"]}

    async def job_ends(self, answered: dict[str, Any]) -> None:
        """Wait for the job of a call, if it is one."""
        with trio.fail_after(45):
            while (name := answered.get("job")) is not None:
                found = await self.other.call("GET", f"/job/find/{name}")
                if found["state"] != "running":
                    assert found["state"] == "done", found
                    return
                await trio.sleep(0.05)


def is_at(node: Node, instance: str) -> bool:
    assert node.gateway.fleet is not None
    return node.gateway.fleet.holds(instance)


async def counted(deliveries: int, *nodes: Node) -> None:
    await until(lambda: all(one.gateway.backlog.count == deliveries for one in nodes))


@asynccontextmanager
async def two_nodes(
    postgres: PostgresServer, schema: str, tmp_path: Path, *, ordering: str, **more: Any
) -> AsyncIterator[Two]:
    may_answer = trio.Event()

    async def wait(_: Received) -> Answer:
        await may_answer.wait()
        return answer()

    async with open_receiver() as receiver:
        receiver.will(wait)
        webhooks = [{"label": "audit", "url": receiver.url, "ordering": ordering, "concurrency": 1}]
        more = {"global_webhooks": webhooks, **more}
        async with (
            node(postgres, schema, "a", tmp_path, **more) as a,
            node(postgres, schema, "b", tmp_path, **more) as b,
        ):
            await settled(a.gateway, b.gateway)
            owner, other = (a, b) if a.gateway.dispatcher.holds(WEBHOOK) else (b, a)
            bystander, instance = sorted((OF_A, OF_B), key=lambda name: is_at(other, name))
            assert is_at(owner, bystander) and is_at(other, instance)  # noqa: PT018 -- one fact
            for name in (OF_A, OF_B):
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            for name, number in ((instance, 0), (instance, 1), (instance, 2), (bystander, 3)):
                event = {"event": "CALL", "data": {"remoteJid": ANA}, "id": f"e{number}"}
                await other.call("POST", f"/event/emit/{name}", event, status=202)
                if number == 0:
                    with trio.fail_after(45):
                        await receiver.wait_for(1)
                # A node that has just come may count what others append twice for a second: limits refuse.
                await counted(number + 1, a, b)
            yield Two(owner, other, instance, bystander, receiver, may_answer)


@pytest.mark.parametrize("ordering", ["url", "instance"])
async def test_what_is_cancelled_is_not_sent_by_the_node_that_has_the_webhook(
    postgres: PostgresServer, schema: str, tmp_path: Path, ordering: str
) -> None:
    async with two_nodes(postgres, schema, tmp_path, ordering=ordering) as two:
        # It waits for the attempt in flight, on the other node.
        answered = await two.other.call("POST", f"/delivery/cancel/{two.instance}", {}, status=202)
        two.may_answer.set()
        await two.job_ends(answered)
        assert await two.states() == {"e0": "delivered", "e1": "dead", "e2": "dead"}
        # The lane goes on with what follows, and stays in order.
        await two.other.call(
            "POST", f"/event/emit/{two.bystander}", {"event": "CALL", "data": {}, "id": "e4"}, status=202
        )
        await until(lambda: "e4" in two.receiver.ids)
        assert [one for one in two.receiver.ids if one != "e0"] == ["e3", "e4"]


@pytest.mark.parametrize("ordering", ["url", "instance"])
async def test_what_is_erased_is_not_sent_by_the_node_that_has_the_webhook(
    postgres: PostgresServer, schema: str, tmp_path: Path, ordering: str
) -> None:
    async with two_nodes(postgres, schema, tmp_path, ordering=ordering) as two:
        erase = two.other.call("POST", f"/event/erase/{two.instance}", {"remoteJid": ANA}, status=202)
        answered = await erase
        assert await two.states() == {"e0": "pending"}  # its attempt is in flight
        two.may_answer.set()
        await two.job_ends(answered)
        assert await two.states() == {}
        await two.other.call(
            "POST", f"/event/emit/{two.bystander}", {"event": "CALL", "data": {}, "id": "e4"}, status=202
        )
        await until(lambda: "e4" in two.receiver.ids)
        assert [one for one in two.receiver.ids if one != "e0"] == ["e3", "e4"]


async def test_what_is_dropped_and_arrives_is_delivered(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """Also for a webhook of the configuration, and whatever is in flight on the other node."""
    limits = {"registration_deliveries": 4, "on_full": "drop_oldest"}
    async with two_nodes(postgres, schema, tmp_path, ordering="url", limits=limits) as two:
        event = {"event": "CALL", "data": {}, "id": "e4"}
        await two.other.call("POST", f"/event/emit/{two.instance}", event, status=202)
        two.may_answer.set()
        await until(lambda: "e4" in two.receiver.ids and not two.other.gateway.backlog.count)
        arrived = [str(one) for one in two.receiver.ids]
        assert arrived == sorted(set(arrived))
        found = await two.states()
        assert found == {one: "delivered" if one in arrived else "dead" for one in ("e0", "e1", "e2", "e4")}


async def test_a_node_that_cannot_be_reached_does_not_stop_a_cancellation(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_pauses, "PATIENCE", 0.1)
    async with two_nodes(postgres, schema, tmp_path, ordering="url") as two:
        two.owner.scope.cancel()  # its API has stopped; its lanes go on
        await two.owner.stopped.wait()
        answered = await two.other.call("POST", f"/delivery/cancel/{two.instance}", {}, status=200)
        assert answered == {"cancelled": 3}
        two.may_answer.set()


class Lanes:
    """Lanes of a node, as a dispatcher pauses them."""

    def __init__(self) -> None:
        self.pauses: Counter[tuple[str, str | None]] = Counter()
        self.flights: list[int] = []

    @property
    def paused(self) -> set[tuple[str, str | None]]:
        return set(+self.pauses)

    @contextmanager
    def pause(self, registration: str, lane: str | None = None) -> Iterator[None]:
        self.pauses[registration, lane] += 1
        yield
        self.pauses[registration, lane] -= 1


class Parts:
    """What :class:`LanePauses` needs of a node."""

    def __init__(self) -> None:
        self.lanes, self.lane, self.flushed = Lanes(), "global_audit:0", 0
        self.paused = self.lanes.pause

    def registration(self, registration_id: str) -> Registration:
        return Registration(id=registration_id, instance="", url="http://r.example/", label="audit")

    def lane_of_instance(self, registration: Registration, instance: str) -> str:
        return self.lane

    def in_flight(self, registration: str, lane: str | None) -> list[tuple[int, trio.Event]]:
        return [(seq, trio.Event()) for seq in self.lanes.flights]

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()
        self.flushed += 1

    def build(self) -> LanePauses:
        return LanePauses(
            cast("Registry", self), cast("Dispatcher", self), cast("PendingDeliveries", self), self.flush
        )


class World:
    """A node that asks, and another one, which answers or not."""

    def __init__(self) -> None:
        self.there = Parts()
        self.lanes = self.there.lanes
        self.pauses, self.other = Parts().build(), self.there.build()
        self.silent, self.removed = False, False
        self.asked = 0

    async def ask(self, _: object, asked: PauseAsked) -> Gathered[PausePart]:
        self.asked += 1
        await trio.lowlevel.checkpoint()
        parts = {"a": await self.pauses.answer(asked)}
        if self.silent or self.removed:
            return Gathered(parts, [] if self.removed else ["b"])
        return Gathered(parts | {"b": await self.other.answer(asked)})


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    async with trio.open_nursery() as nursery:
        for pauses in (made.pauses, made.other):
            await nursery.start(pauses.run, cast("AllNodes", made))
        yield made
        nursery.cancel_scope.cancel()


AUDIT = ("global_audit", "global_audit:0")


async def test_lanes_rest_for_a_block_and_the_ends_of_attempts_are_known_after_it(
    autojump_clock: MockClock,
) -> None:
    async with world() as made:
        made.lanes.flights = [7]
        async with made.pauses.paused("shop", ["global_audit", "reg_1"]) as flights:
            assert [seq for seq, _ in flights] == [7]
            for _ in range(3):
                await trio.sleep(HELD_FOR)
                assert made.lanes.paused == {AUDIT}
            # A re-partition gives the instance another lane.
            made.there.lane = "global_audit:1"
            await trio.sleep(2 * RENEW_EVERY)
            assert made.lanes.paused == {AUDIT, ("global_audit", "global_audit:1")}
        await trio.sleep(RENEW_EVERY)
        assert not made.lanes.paused
        [(_, ended)] = flights
        assert not ended.is_set()
        made.lanes.flights = [8]
        flushed = made.there.flushed
        await ended.wait()
        assert made.there.flushed > flushed  # what settled it is on disk
        await trio.sleep(RENEW_EVERY)
        asked = made.asked
        await trio.sleep(HELD_FOR)
        assert made.asked == asked


async def test_a_pause_that_nobody_renews_ends(autojump_clock: MockClock) -> None:
    """The node that asked for it was killed."""
    async with world() as made:
        await made.other.answer(PauseAsked("p", "shop", ["global_audit"]))
        await trio.sleep(HELD_FOR - 1)
        assert made.lanes.paused == {AUDIT}
        await trio.sleep(1 + 2 * RENEW_EVERY)
        assert not made.lanes.paused


async def test_the_own_webhooks_of_an_instance_are_on_its_node(autojump_clock: MockClock) -> None:
    async with world() as made, made.pauses.paused("shop", ["reg_1"]) as flights:
        assert (flights, made.asked) == ([], 0)


async def test_a_job_waits_for_a_silent_node_but_not_for_ever(autojump_clock: MockClock) -> None:
    async with world() as made:
        made.silent = True
        began = trio.current_time()
        async with made.pauses.paused("shop", ["global_audit"]):
            assert PATIENCE <= trio.current_time() - began < PATIENCE + 2 * RENEW_EVERY
        began = trio.current_time()
        async with made.pauses.paused("shop", ["global_audit"]):
            assert trio.current_time() == began
        # Once it has answered, it is waited for again.
        made.silent = False
        async with made.pauses.paused("shop", ["global_audit"]):
            assert made.lanes.paused == {AUDIT}
        await trio.sleep(RENEW_EVERY)
        made.silent = True
        async with made.pauses.paused("shop", ["global_audit"]):
            assert trio.current_time() >= began + PATIENCE


@pytest.mark.parametrize("fault", ["removed", "silent"])
async def test_an_attempt_of_a_node_that_is_gone_has_ended(autojump_clock: MockClock, fault: str) -> None:
    async with world() as made:
        made.lanes.flights = [7]
        async with made.pauses.paused("shop", ["global_audit"]) as flights:
            setattr(made, fault, True)
            [(_, ended)] = flights
            with trio.fail_after(PATIENCE + 2):
                await ended.wait()
