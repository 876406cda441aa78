"""Sends with a key, and what goes on after the caller has left."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from hookgw import (
    Conflict,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    NetworkRefused,
    Session,
    TemplateMessage,
    TextMessage,
    Unavailable,
)
from hookgw.testing import FakeConnector
from tests.gateway.connectors.test_runner import SHOP, OneInstance, World, connected, running
from tests.public.concurrency import virtual_clock
from tests.public.instances import (
    CALL_TIMEOUT,
    KEPT_SECONDS,
    MOST_BYTES,
    MOST_CALLS,
    MOST_INSTANCES,
    MOST_SENDS,
    MOST_UNSTORED_CALLS,
)
from tests.public.kernel import KeyReused, TooManyRequests
from tests.public.messages import MessageService
from tests.public.records import BUILT_IN_KINDS, Catalog, Instance

pytestmark = pytest.mark.usefixtures("autojump_clock")

HI = TextMessage(number="55", text="hi")
KEY = MessageKey(id="m1", remote_jid="55@fake", from_me=False)


def template(number: int) -> TemplateMessage:
    return TemplateMessage(number="55", name="order", language="pt_BR", components=({"total": number},))


class Slow(FakeConnector):
    """Sends when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.free = trio.Event()
        self.extra: dict[str, Any] = {}

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        sent = await super().send(session, message, key=key)
        await self.free.wait()
        return sent | self.extra


def service_of(world: World, instance: Instance = SHOP) -> MessageService:
    registry = cast("Any", OneInstance(instance))
    return MessageService(registry, world.connectors, Catalog(BUILT_IN_KINDS), virtual_clock())


async def test_a_repetition_waits_for_the_send_in_progress() -> None:
    connector = Slow()
    async with connected(connector) as world:
        service, results, ended = service_of(world), [], []

        async def send() -> None:
            sent = await service.send("shop", HI, key="k", on_ended=lambda: ended.append("x"))
            results.append(sent)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
                await wait_all_tasks_blocked()
            connector.free.set()
        assert len(connector.sent) == 1
        assert len(results) == 3
        assert results[0] == results[1] == results[2]
        assert len(ended) == 3
        assert world.intake.kinds.count("SEND_MESSAGE") == 1


async def test_a_repetition_of_a_send_whose_caller_left() -> None:
    connector = Slow()
    async with connected(connector) as world:
        service, ended = service_of(world), []
        with trio.move_on_after(1):
            await service.send("shop", HI, key="k", on_ended=lambda: ended.append("x"))
        assert ended == []  # the message is needed until the connector has sent it
        connector.free.set()
        assert (await service.send("shop", HI, key="k"))["status"] == "PENDING"
        assert ended == ["x"]
        assert len(connector.sent) == 1


async def test_a_failed_send_is_tried_again_with_the_same_key() -> None:
    async with connected() as world:
        service = service_of(world)
        world.connector.refusal = "Too fast."
        with pytest.raises(NetworkRefused):
            await service.send("shop", HI, key="k")
        world.connector.refusal = None
        await service.send("shop", HI, key="k")
        assert [sent.key for sent in world.connector.sent] == ["k"]


async def test_a_send_that_gets_no_answer_keeps_its_key_for_the_network() -> None:
    connector = Slow()
    async with connected(connector) as world:
        service = service_of(world)
        began = trio.current_time()
        with pytest.raises(NetworkRefused, match="did not answer within 30 s"):
            await service.send("shop", HI, key="k")
        assert trio.current_time() - began == CALL_TIMEOUT
        connector.free.set()
        await service.send("shop", HI, key="k")
        assert [sent.key for sent in connector.sent] == ["k", "k"]


async def test_a_send_is_remembered_for_a_while() -> None:
    async with connected() as world:
        service = service_of(world)
        first = await service.send("shop", HI, key="k")
        await trio.sleep(KEPT_SECONDS)
        assert await service.send("shop", HI, key="k") == first
        await trio.sleep(1)
        assert await service.send("shop", HI, key="k") != first
        assert len(world.connector.sent) == 2


async def test_a_remembered_send_needs_no_connection() -> None:
    async with connected() as world:
        service = service_of(world)
        first = await service.send("shop", HI, key="k")
        await world.connectors.stop("shop")
        assert await service.send("shop", HI, key="k") == first
        with pytest.raises(Conflict):
            await service.send("shop", HI, key="other")


FILE = MediaMessage(number="55", kind=MediaKind.IMAGE, content=b"1")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HI, TextMessage(number="55", text="bye")),
        (HI, TextMessage(number="66", text="hi")),
        (FILE, MediaMessage(number="55", kind=MediaKind.IMAGE, content=b"2")),
        (FILE, MediaMessage(number="55", kind=MediaKind.AUDIO, content=b"1")),
        (template(10**30), template(10**30 + 1)),
    ],
)
async def test_a_key_belongs_to_one_message(first: Message, second: Message) -> None:
    async with connected() as world:
        service = service_of(world)
        sent = await service.send("shop", first, key="k")
        assert await service.send("shop", first, key="k") == sent
        with pytest.raises(KeyReused, match="another message"):
            await service.send("shop", second, key="k")


async def test_what_is_remembered_is_bounded() -> None:
    connector = Slow()
    connector.free.set()
    async with connected(connector) as world:
        service = service_of(world)
        for number in range(MOST_SENDS + 1):
            await service.send("shop", HI, key=f"k{number}")
        await service.send("shop", HI, key="k0")  # forgotten, as the oldest
        assert len(connector.sent) == MOST_SENDS + 2
        connector.extra = {"text": "x" * MOST_BYTES}
        for _ in range(2):
            await service.send("shop", HI, key="large")
        assert len(connector.sent) == MOST_SENDS + 4


async def test_the_instances_that_sent_last_are_remembered() -> None:
    async with connected() as world:
        registry = OneInstance(SHOP)
        service = MessageService(
            cast("Any", registry), world.connectors, Catalog(BUILT_IN_KINDS), virtual_clock()
        )
        for number in range(MOST_INSTANCES + 1):
            registry.one = Instance(name="shop", id=str(number), integration="fake")
            await service.send("shop", HI, key="k")
        await service.send("shop", HI, key="k")
        registry.one = Instance(name="shop", id="0", integration="fake")
        await service.send("shop", HI, key="k")
        assert len(world.connector.sent) == MOST_INSTANCES + 2


async def test_what_all_instances_have_sent_is_remembered_within_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected() as world:
        size = len(msgspec.json.encode(await service_of(world).send("shop", HI)))
        monkeypatch.setattr("hookgw.instances.connectors.recent_sends.MOST_MEMORY", 4 * size + 3)
        registry = OneInstance(SHOP)
        service = MessageService(
            cast("Any", registry), world.connectors, Catalog(BUILT_IN_KINDS), virtual_clock()
        )

        async def is_remembered(instance: str, key: str) -> bool:
            registry.one = Instance(name="shop", id=instance, integration="fake")
            before = len(world.connector.sent)
            await service.send("shop", HI, key=key)
            return len(world.connector.sent) == before

        for instance, key in (("a", "1"), ("a", "2"), ("b", "1"), ("a", "3"), ("c", "1")):
            assert not await is_remembered(instance, key)
        # The fifth was too much. b has not sent for longest.
        for instance, key in (("a", "1"), ("a", "2"), ("a", "3"), ("c", "1")):
            assert await is_remembered(instance, key)
        assert not await is_remembered("b", "1")


@pytest.mark.parametrize(
    "fail",
    [
        lambda service, ended: service.send("shop", HI, on_ended=ended),
        lambda service, ended: service.send("shop", HI, key="k", on_ended=ended),
    ],
)
async def test_a_message_that_is_not_sent_is_no_longer_needed(
    fail: Callable[[MessageService, Callable[[], None]], Any],
) -> None:
    async with running() as world:
        ended: list[str] = []
        with pytest.raises(Conflict):
            await fail(service_of(world), lambda: ended.append("x"))
        assert ended == ["x"]


async def test_a_fault_in_a_call_ends_only_the_call() -> None:
    def fail() -> None:
        raise RuntimeError("a fault in hookgw")

    async with connected() as world:
        service = service_of(world)
        with capture_logs() as logs:
            assert (await service.send("shop", HI, on_ended=fail))["key"]
        assert [line["reason"] for line in logs if line["event"] == "task failed"] == [
            "RuntimeError: a fault in hookgw"
        ]
        await service.send("shop", HI)


@pytest.mark.parametrize(
    "key", [None, "m1", {}, {"id": 5, "remoteJid": "55@fake"}, {"id": "", "remoteJid": "x"}]
)
async def test_what_a_connector_names_badly_is_an_event_all_the_same(key: Any) -> None:
    connector = Slow()
    connector.extra = {"key": key}
    connector.free.set()
    async with connected(connector) as world:
        sent = await service_of(world).send("shop", HI)
        assert (world.intake.kinds[-1], world.intake.events[-1].data) == ("SEND_MESSAGE", sent)


async def test_a_presence_may_take_as_long_as_it_is_shown() -> None:
    class Typing(FakeConnector):
        async def set_presence(
            self, session: Session, presence: str, *, number: str | None, delay: float
        ) -> None:
            await trio.sleep(delay)

    async with connected(Typing()) as world:
        began = trio.current_time()
        await service_of(world).show_presence("shop", "composing", number="55", delay=120)
        assert trio.current_time() - began == 120


async def test_calls_are_refused_while_the_events_of_many_cannot_be_stored() -> None:
    async with connected() as world:
        await wait_all_tasks_blocked()
        service = service_of(world)
        world.intake.errors = [Unavailable("full", retry_after=60) for _ in range(MOST_UNSTORED_CALLS)]
        async with trio.open_nursery() as callers:
            for _ in range(MOST_UNSTORED_CALLS):
                callers.start_soon(service.send, "shop", HI)
            await wait_all_tasks_blocked()
            callers.cancel_scope.cancel()  # the calls do not end with their callers
        ended: list[str] = []
        for call in (
            partial(service.send, "shop", HI, key="k", on_ended=lambda: ended.append("x")),
            partial(service.edit, "shop", KEY, "hi", number="55"),
            partial(service.mark_read, "shop", [KEY]),
        ):
            with pytest.raises(TooManyRequests, match=r"backlog is full.* was not called") as refusal:
                await call()
            assert refusal.value.retry_after > 0
        assert ended == ["x"]
        assert len(world.connector.sent) == MOST_UNSTORED_CALLS
        assert world.connector.calls == []
        assert world.intake.kinds.count("SEND_MESSAGE") == 0

        await trio.sleep(60)
        await wait_all_tasks_blocked()
        assert world.intake.kinds.count("SEND_MESSAGE") == MOST_UNSTORED_CALLS  # none is lost
        await service.send("shop", HI, key="k")
        assert world.intake.kinds.count("SEND_MESSAGE") == MOST_UNSTORED_CALLS + 1


async def test_the_calls_in_progress_are_limited() -> None:
    """While events can be stored, there may be more of them: a network may be slow."""
    connector = Slow()
    async with connected(connector) as world:
        service = service_of(world)
        async with trio.open_nursery() as callers:
            for _ in range(MOST_CALLS):
                callers.start_soon(service.send, "shop", HI)
            await wait_all_tasks_blocked()
            with pytest.raises(TooManyRequests, match=rf"in progress; at most {MOST_CALLS} may be\."):
                await service.send("shop", HI)
            assert len(connector.sent) == MOST_CALLS
            connector.free.set()
        await service.send("shop", HI)
        assert world.intake.kinds.count("SEND_MESSAGE") == MOST_CALLS + 1


async def test_a_call_without_events_does_not_wait_for_room() -> None:
    async with connected() as world:
        await wait_all_tasks_blocked()
        world.intake.errors = [Unavailable("disk full", retry_after=60)]
        began = trio.current_time()
        await service_of(world).show_presence("shop", "composing", number="55", delay=0)
        assert trio.current_time() == began
