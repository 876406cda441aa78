"""Sends with a delay: what they wait for, who waits for them, and when they are not sent."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import Conflict, Invalid, MediaKind, MediaMessage, Message, NetworkRefused, Session, TextMessage
from hookgw.testing import FakeConnector
from tests.gateway.connectors.test_runner import connected
from tests.gateway.test_messages import service_of
from tests.public.instances import CALL_TIMEOUT, MOST_CALLS, NOT_WANTED
from tests.public.kernel import TooManyRequests

pytestmark = pytest.mark.usefixtures("autojump_clock")

ANA = "5511988887777"


def text(words: str, number: str = ANA, *, delay: float = 0.0) -> TextMessage:
    return TextMessage(number=number, text=words, delay=delay)


class Timed(FakeConnector):
    """Notes when it was called, in seconds."""

    def __init__(self, *, takes: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.log: list[tuple[float, str]] = []
        self.takes = takes

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        self.log.append((trio.current_time(), getattr(message, "text", "a file")))
        await trio.sleep(self.takes)
        return await super().send(session, message, key=key)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        self.log.append((trio.current_time(), f"{presence} {delay:g}"))
        await super().set_presence(session, presence, number=number, delay=delay)
        await trio.sleep(delay)  # as connectors do that show it for as long


async def test_a_presence_is_shown_then_the_message_is_sent() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service, start = service_of(world), trio.current_time()
        await service.send("shop", text("hi", delay=2.5))
        voice = MediaMessage(number=ANA, kind=MediaKind.AUDIO, content=b"x", is_voice=True, delay=1)
        await service.send("shop", voice)
        assert [(at - start, what) for at, what in connector.log] == [
            (0, "composing 2.5"),
            (2.5, "hi"),
            (2.5, "recording 1"),
            (3.5, "a file"),
        ]


@pytest.mark.parametrize(
    "connector",
    [
        Timed(without=("set_presence",)),
        pytest.param("refuses", id="refuses"),
        pytest.param("fails", id="fails"),
    ],
)
async def test_without_a_presence_the_message_is_sent_all_the_same(connector: Any) -> None:
    if isinstance(connector, str):
        error = NetworkRefused("No.") if connector == "refuses" else RuntimeError("a bug")
        connector = Timed()
        connector.faults["set_presence"] = error
    async with connected(connector) as world:
        start = trio.current_time()
        await service_of(world).send("shop", text("hi", delay=2))
        assert connector.log[-1] == (start + 2, "hi")


async def test_the_delay_is_outside_the_networks_own_time() -> None:
    connector = Timed(takes=CALL_TIMEOUT - 1)
    async with connected(connector) as world:
        await service_of(world).send("shop", text("hi", delay=60))
        assert len(connector.sent) == 1


async def test_later_sends_to_the_chat_wait_in_order_and_others_do_not() -> None:
    connector = Timed(takes=0.5)
    async with connected(connector) as world:
        service, start = service_of(world), trio.current_time()
        messages = [
            text("first", delay=3),
            text("second", "+55 (11) 98888-7777"),
            text("third", f"{ANA}@c.us", delay=2),
            text("fourth", f"{ANA}:7@s.whatsapp.net"),
            text("elsewhere", "5511977776666"),
        ]
        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(service.send, "shop", message)
                await wait_all_tasks_blocked()
        sent = [(at - start, what) for at, what in connector.log if not what.startswith("composing")]
        assert sent == [(0, "elsewhere"), (3, "first"), (3.5, "second"), (6, "third"), (6.5, "fourth")]
        await service.send("shop", text("fifth"))
        assert connector.log[-1][0] == trio.current_time() - 0.5  # nobody is in line any more


async def test_a_failed_send_lets_the_next_one_go_on() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        connector.refusal = Invalid("No.")
        async with trio.open_nursery() as nursery:

            async def refused() -> None:
                with pytest.raises(Invalid):
                    await service.send("shop", text("first", delay=3))
                connector.refusal = None

            nursery.start_soon(refused)
            await wait_all_tasks_blocked()
            nursery.start_soon(service.send, "shop", text("second"))
        assert [one.message for one in connector.sent] == [text("second")]


async def test_it_is_not_sent_if_the_caller_has_gone() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        ended: list[str] = []
        with trio.move_on_after(1):
            await service.send("shop", text("first", delay=3), on_ended=lambda: ended.append("x"))
        await wait_all_tasks_blocked()
        assert ended == ["x"]
        start = trio.current_time()
        await service.send("shop", text("second"))
        assert connector.log[-1] == (start, "second")  # the line is free
        assert len(connector.sent) == 1


@pytest.mark.parametrize("is_last", [False, True])
async def test_who_leaves_the_line_lets_nobody_overtake_those_before(is_last: bool) -> None:
    connector = Timed()
    async with connected(connector) as world:
        service, start = service_of(world), trio.current_time()
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                with trio.move_on_after(1):
                    await service.send("shop", text("second"))

            nursery.start_soon(service.send, "shop", text("first", delay=3))
            await wait_all_tasks_blocked()
            nursery.start_soon(leave)
            await wait_all_tasks_blocked()
            if is_last:
                await trio.sleep(2)
            nursery.start_soon(service.send, "shop", text("third"))
        sent = [(at - start, what) for at, what in connector.log if not what.startswith("composing")]
        assert sent == [(3, "first"), (3, "third")]


async def test_it_is_not_sent_if_the_client_has_closed_its_connection() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        leaves = trio.current_time() + 2.5
        with pytest.raises(Conflict, match=NOT_WANTED):
            await service.send("shop", text("hi", delay=30), is_there=lambda: trio.current_time() < leaves)
        assert trio.current_time() == leaves + 0.5
        assert connector.sent == []


async def test_a_repetition_that_is_still_there_gets_it_sent() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        results = []
        async with trio.open_nursery() as nursery:

            async def first() -> None:
                with trio.move_on_after(1):
                    await service.send("shop", text("hi", delay=5), key="k")

            async def again() -> None:
                results.append(await service.send("shop", text("hi", delay=5), key="k"))

            nursery.start_soon(first)
            await wait_all_tasks_blocked()
            nursery.start_soon(again)
        assert (len(results), len(connector.sent)) == (1, 1)


async def test_it_is_not_sent_over_another_connection() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        async with trio.open_nursery() as nursery:

            async def refused() -> None:
                with pytest.raises(Conflict, match="no longer connected"):
                    await service.send("shop", text("hi", delay=5))

            nursery.start_soon(refused)
            await wait_all_tasks_blocked()
            await world.connectors.stop("shop")
        assert connector.sent == []


async def test_sends_that_wait_are_calls_in_progress() -> None:
    connector = Timed()
    async with connected(connector) as world:
        service = service_of(world)
        async with trio.open_nursery() as nursery:
            for number in range(MOST_CALLS):
                nursery.start_soon(service.send, "shop", text("hi", str(number), delay=9))
            await wait_all_tasks_blocked()
            with pytest.raises(TooManyRequests):
                await service.send("shop", text("late", delay=9))
        assert len(connector.sent) == MOST_CALLS
        start = trio.current_time()
        await service.send("shop", text("late"))  # it has left the line
        assert connector.log[-1] == (start, "late")
