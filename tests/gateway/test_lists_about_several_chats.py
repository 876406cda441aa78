"""Events about several chats, to registrations with ordering ``chat``."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from hookgw.testing import GatewayKit, Received, Receiver, answer, open_kit
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("hookgw_clock")

PEOPLE = tuple(f"551698888000{number}@s.whatsapp.net" for number in range(6))
BY_CHAT: dict[str, Any] = {"ordering": Ordering.CHAT, "concurrency": 4}
KIND = "CALL"


async def emit(kit: GatewayKit, name: str, *people: int) -> None:
    data = [{"remoteJid": PEOPLE[person]} for person in people]
    await kit.emit(KIND, data if len(people) > 1 else data[0], event_id=name)


def refuse(*names: str) -> Any:
    """Return a receiver's answer: it refuses these events."""
    return lambda request: answer(503 if request.event_id in names else 200)


def delivered(receiver: Receiver, *refused: str) -> list[str]:
    return [str(name) for name in receiver.ids if name not in refused]


async def test_a_list_waits_for_all_partitions_and_they_wait_for_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, **BY_CHAT)
    hookgw_receiver.default = refuse("a1")
    for name, people in {"a1": [0], "b1": [1], "list": [1, 2], "b2": [1], "c1": [3]}.items():
        await emit(hookgw_gateway, name, *people)
    await hookgw_gateway.settled()
    assert delivered(hookgw_receiver, "a1") == ["b1"]
    [waiting] = [one for one in hookgw_gateway.gateway.dispatcher.lanes() if one.partition == "all"]
    assert (waiting.state, waiting.waits_for, waiting.backlog) == ("waiting", "order", 1)
    hookgw_receiver.default = refuse("list")
    await hookgw_gateway.advance(60)
    assert delivered(hookgw_receiver, "list")[-1] == "a1"
    assert "list" in hookgw_receiver.ids
    hookgw_receiver.default = answer()
    await hookgw_gateway.advance(600)
    firsts = list(dict.fromkeys(hookgw_receiver.ids))
    assert firsts[:3] == ["b1", "a1", "list"] or firsts[:3] == ["a1", "b1", "list"]
    assert sorted(map(str, firsts[3:])) == ["b2", "c1"]


async def test_lists_alone_are_in_order(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, **BY_CHAT)
    names = [f"list{number}" for number in range(5)]
    for name in names:
        await emit(hookgw_gateway, name, 0, 1)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == names


def check_order(receiver: Receiver, sent: Sequence[tuple[str, Sequence[int]]]) -> None:
    """Every event arrived, and those of each person in order."""
    firsts = list(dict.fromkeys(receiver.ids))
    assert sorted(map(str, firsts)) == sorted(name for name, _ in sent)
    of_person: dict[int, list[str]] = defaultdict(list)
    for name, people in sent:
        for person in people:
            of_person[person].append(name)
    for names in of_person.values():
        assert [name for name in firsts if name in set(names)] == names


@pytest.mark.parametrize("seed", range(8))
async def test_the_order_of_each_chat_holds_through_failures_and_restarts(
    tmp_path: Path, hookgw_receiver: Receiver, seed: int
) -> None:
    chance = random.Random(seed)
    sent: list[tuple[str, Sequence[int]]] = []

    def fail_at_times(_: Received) -> Any:
        return answer(chance.choice((200, 200, 503)))

    hookgw_receiver.default = fail_at_times
    for _ in range(3):
        async with open_kit(tmp_path) as kit:
            if not sent:
                await kit.register(hookgw_receiver.url, **BY_CHAT)
            for _ in range(30):
                people = chance.sample(range(len(PEOPLE)), chance.choice((1, 1, 1, 1, 2, 3)))
                sent.append((f"e{len(sent)}", people))
                await emit(kit, sent[-1][0], *people)
                if chance.random() < 0.2:
                    await trio.testing.wait_all_tasks_blocked(0.001)
                if chance.random() < 0.05:
                    await kit.register(
                        hookgw_receiver.url, **BY_CHAT | {"concurrency": chance.choice((2, 3, 5))}
                    )
    async with open_kit(tmp_path) as kit:
        hookgw_receiver.default = answer()
        for _ in range(5):
            await kit.advance(400)
        await kit.settled()
    check_order(hookgw_receiver, sent)
