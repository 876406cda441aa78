"""Instances whose connection is open, and that no event comes from any more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hookgw
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.quiet import LOOK_EVERY, QuietWatch, Sign
from hookgw.records.connectors import ConnectionState, QRCode
from hookgw.records.events import Event
from hookgw.testing import FakeConnector, GatewayKit, open_kit
from tests.support.waits import asleep

pytestmark = pytest.mark.usefixtures("hookgw_clock")

HOUR = 3600.0
WEEK = 168 * HOUR
WATCH = "hookgw.instances.quiet.QuietWatch.run"


class Observer:
    """A plugin that keeps operational events."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    @hookgw.hookimpl
    def hookgw_operational_event(self, event: Event) -> None:
        self.heard.append(event)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.heard]

    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = self.heard[-1].data
        return found


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def connector() -> FakeConnector:
    return FakeConnector()


@asynccontextmanager
async def opened(
    folder: Path, observer: Observer, connector: FakeConnector, **instances: Any
) -> AsyncIterator[GatewayKit]:
    plugins = {"observer": observer, "fake": connector}
    async with open_kit(folder, plugins=plugins, settings={"instances": instances}) as kit:
        yield kit


@pytest.fixture
async def kit(tmp_path: Path, observer: Observer, connector: FakeConnector) -> AsyncIterator[GatewayKit]:
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        yield kit


async def connect(kit: GatewayKit, **options: Any) -> None:
    await kit.gateway.instances.create("shop", integration="fake", own_options=options)
    await kit.gateway.instances.connect("shop")


async def advance(kit: GatewayKit, seconds: float) -> None:
    """Move the clock, and let the watch look once; the kit does not wait for what it reads and writes."""
    await asleep(WATCH)
    await kit.advance(seconds)
    await asleep(WATCH)
    await kit.settled()


async def look(kit: GatewayKit, times: int = 5) -> None:
    """Wait for as long as the watch has to notice something: less than 30 s."""
    for _ in range(times):
        await advance(kit, LOOK_EVERY)


async def problems(kit: GatewayKit) -> list[str]:
    return [one.why for one in (await kit.gateway.views.overview(None, 20)).problems]


async def test_an_instance_that_falls_silent_is_reported_once_and_when_it_is_heard(
    kit: GatewayKit, observer: Observer
) -> None:
    await connect(kit)
    await kit.emit("CALL", {})
    await advance(kit, HOUR - 10)
    assert observer.kinds == []
    assert await problems(kit) == []
    await look(kit)
    await look(kit)
    assert observer.kinds == ["INSTANCE_QUIET"]
    told = observer.last()
    assert (told["instance"], told["registration"]) == ("shop", None)
    assert told["reason"] == "No event has come for 1h (quietAfter: 1h)."
    assert await problems(kit) == ["Connected, but no event comes."]
    await kit.emit("CALL", {})
    await kit.settled()
    assert observer.kinds == ["INSTANCE_QUIET", "INSTANCE_HEARD"]
    assert observer.last()["since"] == told["since"]
    assert observer.last()["seconds"] >= told["seconds"] >= HOUR
    assert await problems(kit) == []


async def test_what_hookgw_raises_itself_is_no_sign_of_life(
    kit: GatewayKit, observer: Observer, connector: FakeConnector
) -> None:
    await connect(kit)
    await advance(kit, HOUR / 2)
    await connector.session("shop").set_state(ConnectionState.CONNECTING)
    await connector.session("shop").show_qr_code(QRCode(code="c", base64="data:image/png;base64,AA=="))
    await connector.session("shop").set_state(ConnectionState.OPEN)
    await advance(kit, HOUR / 2)
    await look(kit)
    assert observer.kinds == ["INSTANCE_QUIET"]


async def test_without_a_connection_the_silence_does_not_grow(
    kit: GatewayKit, observer: Observer, connector: FakeConnector
) -> None:
    await connect(kit)
    await advance(kit, HOUR / 2)
    await connector.session("shop").set_state(ConnectionState.CLOSE)
    await look(kit, 1)
    await advance(kit, 2 * HOUR)
    await connector.session("shop").set_state(ConnectionState.OPEN)
    await look(kit)
    assert observer.kinds == []
    await advance(kit, HOUR / 2)
    await look(kit)
    assert observer.kinds == ["INSTANCE_QUIET"]


async def test_an_instance_has_a_limit_of_its_own(kit: GatewayKit, observer: Observer) -> None:
    await connect(kit, quiet_after=1.0)
    await look(kit)
    assert observer.kinds == ["INSTANCE_QUIET"]
    await kit.gateway.instances.change_options("shop", {}, {"quiet_after": 0.0}, is_operator=False)
    await look(kit)
    assert await problems(kit) == []


async def test_events_over_http_are_watched_without_a_connector(kit: GatewayKit, observer: Observer) -> None:
    await kit.gateway.instances.create("shop")
    await kit.emit("CALL", {})
    await advance(kit, HOUR)
    await look(kit)
    assert observer.kinds == []  # nobody has said that it is connected
    await kit.emit("CONNECTION_UPDATE", {"state": "open"})
    await advance(kit, HOUR)
    await look(kit)
    assert observer.kinds == ["INSTANCE_QUIET"]


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (601, "No event has come for 10m; at this hour of the week, one comes every 1m."),
        # As after a restart: nothing is known of the hour of the look.
        (2 * HOUR, "No event has come for 2h; that is at least 10 times the usual gap of these hours."),
    ],
)
async def test_ten_usual_gaps_at_this_hour_of_the_week_are_enough(
    kit: GatewayKit, observer: Observer, seconds: float, reason: str
) -> None:
    await connect(kit, quiet_after=50 * WEEK)
    for _ in range(4):
        for _ in range(60):
            await kit.emit("CALL", {})
        await advance(kit, WEEK)
    await kit.emit("CALL", {})
    await advance(kit, 590)
    assert observer.kinds[-1] == "INSTANCE_HEARD"  # after a week of the training
    await advance(kit, seconds - 590)
    assert observer.kinds[-1] == "INSTANCE_QUIET"
    assert observer.last()["reason"] == reason


async def test_the_silence_outlasts_a_restart(
    tmp_path: Path, observer: Observer, connector: FakeConnector
) -> None:
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await connect(kit)
        await kit.emit("CALL", {})
        await advance(kit, HOUR / 2)
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await advance(kit, HOUR / 2)
        await look(kit)
        assert observer.kinds == ["INSTANCE_QUIET"]
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await look(kit)
        assert observer.kinds == ["INSTANCE_QUIET"]
        assert await problems(kit) == ["Connected, but no event comes."]
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await kit.emit("CALL", {})  # before the watch has read anything
        await look(kit)
        assert observer.kinds == ["INSTANCE_QUIET", "INSTANCE_HEARD"]


async def test_a_later_instance_of_the_name_begins_with_nothing(kit: GatewayKit, observer: Observer) -> None:
    await connect(kit)
    await kit.emit("CALL", {})
    await advance(kit, HOUR - 10)
    former = kit.gateway.instances.get("shop").id
    await kit.gateway.instances.delete("shop")
    await connect(kit)
    await look(kit)
    assert observer.kinds == []
    assert await kit.gateway.store.load_rhythm(former) is None


async def test_the_events_that_another_node_has_accepted_are_counted_by_the_holder(
    kit: GatewayKit, observer: Observer
) -> None:
    await connect(kit)
    gateway = kit.gateway
    registry: Any = SimpleNamespace(find_instance=gateway.instances.find)
    states = ConnectionStates()
    elsewhere = QuietWatch(
        registry, states, gateway.operational, gateway.store, gateway.clock, HOUR, lambda _: False
    )
    for _ in range(2):
        elsewhere.accepted([Event(id="a", kind="CALL", instance="shop", data_json=b"{}", time=0.0)])
    assert await elsewhere.take_for_others() == {"shop": Sign("shop", 2, gateway.clock.steady())}


async def test_without_a_connector_it_stays_open_over_a_restart(
    tmp_path: Path, observer: Observer, connector: FakeConnector
) -> None:
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await kit.gateway.instances.create("shop")
        await kit.emit("CONNECTION_UPDATE", {"state": "open"})
        await look(kit)
    async with opened(tmp_path, observer, connector, quiet_after="1h") as kit:
        await advance(kit, HOUR)
        await look(kit)
        assert observer.kinds == ["INSTANCE_QUIET"]
        await kit.emit("CONNECTION_UPDATE", {"state": "close"})
        await look(kit)
        assert await problems(kit) == []
