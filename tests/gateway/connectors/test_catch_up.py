"""A connector that asks its network for what it has missed, through a running gateway."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import hookgw
from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    NetworkRefused,
    NewEvent,
    NotSupported,
    Session,
    Unavailable,
)
from hookgw.connectors.coverage import MOST_FAILING, MOST_FAULTS, MOST_HELD, WINDOW
from hookgw.records.events import Event
from hookgw.records.instances import CatchUp
from hookgw.testing import FakeConnector, GatewayKit, open_kit
from tests.support.waits import asleep

HOUR = 3600.0


class Network(FakeConnector):
    """A network with a history, and the connector to it.

    Attributes:
        history: the times of its messages.
        asked: the spans of time that were asked for.
        may_answer: unset while the server does not answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[float] = []
        self.asked: list[tuple[float, float]] = []
        self.has_history = True
        self.failures = 0
        self.failure: Exception = OSError("network down")
        self.may_answer = trio.Event()
        self.may_answer.set()
        self.seen: list[str] = []
        self.reports: list[dict[str, str]] = []
        self.look = trio.Event()

    async def run(self, session: Session) -> None:
        self.lost_touch = session.lost_touch
        session.lost_touch()
        await session.set_state(ConnectionState.CONNECTING)
        while True:
            self.look = trio.Event()
            await session.catch_up(self._missed)
            await session.set_state(ConnectionState.OPEN)
            await self.look.wait()

    async def _missed(self, begin: float, end: float) -> AsyncGenerator[Sequence[NewEvent], None]:
        self.asked.append((begin, end))
        await self.may_answer.wait()
        if not self.has_history:
            raise NotSupported("The network has no history.")
        # As many servers do: the newest first.
        found = sorted((at for at in self.history if begin <= at <= end), reverse=True)
        for first in range(0, len(found), 2):
            yield [message(at) for at in found[first : first + 2]]
        if self.failures:
            self.failures -= 1
            raise self.failure

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        await session.emit_all([message(float(request.body))])
        return IngestResponse()

    @hookgw.hookimpl
    def hookgw_event_accepted(self, event: Event) -> None:
        if event.kind == "CALL":
            self.seen.append(event.id)

    @hookgw.hookimpl
    def hookgw_operational_event(self, event: Event) -> None:
        if event.kind == "INSTANCE_GAP":
            self.reports.append(event.data)


def message(at: float) -> NewEvent:
    return NewEvent(kind="CALL", data={}, event_id=f"at-{at:.0f}", time=at)


@pytest.fixture
def network() -> Network:
    return Network()


@asynccontextmanager
async def opened(folder: Path, network: Network) -> AsyncIterator[GatewayKit]:
    async with open_kit(folder, plugins={"network": network}) as kit:
        yield kit


async def connected_once(folder: Path, network: Network, catch_up: CatchUp = CatchUp()) -> float:  # noqa: B008
    """Connect an instance and stop hookgw; return when."""
    async with opened(folder, network) as kit:
        await kit.gateway.instances.create("shop", integration="fake", own_options={"catch_up": catch_up})
        await kit.gateway.instances.connect("shop")
        await kit.settled()
        return kit.gateway.clock.wall()


async def caught_up(kit: GatewayKit) -> None:
    """Wait until the instance is connected, which it is when everything is stored."""
    for _ in range(1000):
        await kit.settled()
        if kit.gateway.instances.connection_state("shop") is ConnectionState.OPEN:
            break
    await kit.settled()


async def test_what_came_during_a_downtime_is_stored_in_the_order_of_time(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    stopped = await connected_once(tmp_path, network)
    assert network.asked == []
    network.history = [stopped - HOUR, stopped + 10, stopped + 20, stopped + 8 * HOUR]
    hookgw_clock.jump(10 * HOUR)
    async with opened(tmp_path, network) as kit:
        await caught_up(kit)
        assert network.seen == [f"at-{at:.0f}" for at in network.history[1:]]
        assert len(network.asked) == 2
        assert all(end - begin <= WINDOW for begin, end in network.asked)
        # It is connected: a further look asks for nothing.
        network.look.set()
        await kit.settled()
        assert len(network.asked) == 2
    assert network.reports == []


async def test_new_reports_are_held_until_the_gap_is_stored(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    stopped = await connected_once(tmp_path, network)
    network.history = [stopped + 10]
    hookgw_clock.jump(60)
    network.may_answer = trio.Event()
    async with opened(tmp_path, network) as kit:
        await kit.settled()
        new = f"{stopped + 60:.0f}".encode()
        with pytest.raises(Unavailable, match=r"^What came before is still to be fetched") as refused:
            await kit.ingest(new)
        assert refused.value.retry_after
        network.may_answer.set()
        await caught_up(kit)
        await kit.ingest(new)
        await kit.settled()
    assert network.seen == [f"at-{stopped + 10:.0f}", f"at-{stopped + 60:.0f}"]


async def test_reports_are_not_held_for_ever(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    await connected_once(tmp_path, network)
    hookgw_clock.jump(60)
    network.may_answer = trio.Event()
    async with opened(tmp_path, network) as kit:
        await kit.settled()
        for _ in range(4):
            with pytest.raises(Unavailable, match=r"^What came before"):
                await kit.ingest(b"1")
            network.lost_touch()  # as connectors say after each look that fails
            await kit.advance(MOST_HELD / 4)
        await kit.ingest(b"1")
    assert network.seen == ["at-1"]


async def test_a_gap_beyond_the_limits_is_named(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    stopped = await connected_once(tmp_path, network, CatchUp(limit=3, span=2 * HOUR))
    hookgw_clock.jump(3 * HOUR)
    network.history = [stopped + 10, *(stopped + 2 * HOUR + number for number in range(5))]
    async with opened(tmp_path, network) as kit:
        await caught_up(kit)
    assert len(network.seen) == 3
    beyond_span, beyond_limit = network.reports
    assert beyond_span["instance"] == "shop"
    assert beyond_span["from"] < beyond_span["to"] == beyond_limit["from"] < beyond_limit["to"]


async def test_a_gap_is_asked_for_again_after_a_failure(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    stopped = await connected_once(tmp_path, network)
    network.history = [stopped + number for number in range(1, 6)]
    network.failures = 1
    hookgw_clock.jump(60)
    async with opened(tmp_path, network) as kit:
        await kit.settled()
        assert network.seen == []
        await asleep("connector shop")
        await kit.advance(5)
        await caught_up(kit)
    assert network.seen == [f"at-{at:.0f}" for at in network.history]


async def test_a_history_that_keeps_failing_does_not_keep_the_account_closed(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    stopped = await connected_once(tmp_path, network)
    network.history = [stopped + 1]
    network.failures, network.failure = 1_000, NetworkRefused("too slow")
    hookgw_clock.jump(60)
    async with opened(tmp_path, network) as kit:
        for _ in range(MOST_FAULTS - 1):
            assert kit.gateway.instances.connection_state("shop") is not ConnectionState.OPEN
            await asleep("connector shop")
            await kit.advance(MOST_FAILING / (MOST_FAULTS - 1))
        await caught_up(kit)
        assert kit.gateway.instances.connection_state("shop") is ConnectionState.OPEN
        assert len(network.asked) == MOST_FAULTS
        await kit.ingest(b"1")
        await kit.settled()
    assert network.seen == [f"at-{stopped + 1:.0f}", "at-1"]
    [gap] = network.reports
    assert gap["from"] < gap["to"]


async def test_without_a_history_the_connection_opens(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    await connected_once(tmp_path, network)
    network.has_history = False
    hookgw_clock.jump(60)
    async with opened(tmp_path, network) as kit:
        await caught_up(kit)
        await kit.ingest(b"1")
    assert network.reports == []


async def test_a_limit_of_0_asks_for_nothing(
    tmp_path: Path, network: Network, hookgw_clock: MockClock
) -> None:
    await connected_once(tmp_path, network, CatchUp(limit=0))
    hookgw_clock.jump(60)
    async with opened(tmp_path, network) as kit:
        await caught_up(kit)
    assert network.asked == []
