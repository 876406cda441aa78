"""Connectors, each in a task of its own, over an ``accept`` that writes down what it takes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import trio
from msgspec.structs import replace
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from hookgw import (
    Conflict,
    ConnectionState,
    Event,
    HookgwError,
    InstanceSettings,
    Invalid,
    Message,
    NetworkRefused,
    NotFound,
    QRCode,
    Session,
    TextMessage,
    Unavailable,
)
from hookgw.testing import FakeConnector, SentMessage
from hookgw.testing.connector import connect_at_once
from tests.public.concurrency import virtual_clock
from tests.public.config import DeliverySettings, ServerSettings
from tests.public.core import IngestUrls
from tests.public.delivery import OutboundHttp
from tests.public.instances import (
    LOGGED_OUT_HERE,
    REPORT_TIMEOUT,
    ConnectionStates,
    Connectors,
    ConnectorSession,
)
from tests.public.kernel import PluginFailed
from tests.public.messages import MessageService
from tests.public.plugins import Boundary, ContainedConnector, check_connector
from tests.public.records import BUILT_IN_KINDS, Catalog, Disconnection, Instance
from tests.public.store import ConnectorState
from tests.support.media import EVENT_RULES, inbound_media

pytestmark = pytest.mark.usefixtures("autojump_clock")

CLIENTS = OutboundHttp(DeliverySettings()).connector_clients({"mine": ()})
URLS = IngestUrls(ServerSettings())
HI = TextMessage(number="55", text="hi")
SHOP = Instance(name="shop", id="1", integration="fake", options={"token": "t"})
CODE = QRCode(code="2@abc", base64="data:image/png;base64,AA==", pairing_code="ABCD")


class Intake:
    """Takes events; refuses with the errors that it is given first."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[HookgwError] = []

    async def accept(
        self, events: Sequence[Event], *, instance_id: str, state: ConnectorState | None = None
    ) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.events += events
        await trio.lowlevel.checkpoint()

    @property
    def states(self) -> list[tuple[str, int]]:
        return [
            (e.data["state"], e.data["statusReason"]) for e in self.events if e.kind == "CONNECTION_UPDATE"
        ]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


async def no_state(instance_id: str) -> None:
    """Find no state of a connector."""


class Restarts:
    """Writes down what failed, and what ended."""

    def __init__(self) -> None:
        self.failures: list[tuple[str | None, str, float]] = []
        self.ended_instances: list[str] = []

    def failed(self, failure: PluginFailed, wait: float, instance: str | None = None) -> None:
        self.failures.append((instance, failure.reason, wait))

    def ended(self, instance: str) -> None:
        self.ended_instances.append(instance)


class OneInstance:
    def __init__(self, instance: Instance) -> None:
        self.one = instance

    def instance(self, _: str) -> Instance:
        return self.one


class World:
    """Running connectors over one fake."""

    def __init__(self, connector: FakeConnector) -> None:
        self.connector = connector
        self.intake = Intake()
        self.states = ConnectionStates()
        contained = ContainedConnector(check_connector(connector), "mine", Boundary())
        self.restarts = Restarts()
        self.connectors = Connectors(
            {connector.name: contained},
            self.states,
            cast("Any", self.restarts),
            virtual_clock(),
            CLIENTS,
            URLS,
            inbound_media(),
            EVENT_RULES,
        )
        self.logged_out: list[str] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async def logged_out(name: str, instance_id: str) -> None:
            assert instance_id == SHOP.id
            self.logged_out.append(name)

        await self.connectors.run(self.intake.accept, no_state, logged_out, task_status=task_status)

    async def send(self, instance: Instance = SHOP) -> dict[str, Any]:
        catalog = Catalog([*BUILT_IN_KINDS])
        service = MessageService(OneInstance(instance), self.connectors, catalog, virtual_clock())  # type: ignore[arg-type]
        return await service.send(instance.name, HI, key="key")

    async def connect(self, instance: Instance = SHOP) -> QRCode | None:
        return await self.connectors.wait_for_code(self.connectors.start(instance))


@asynccontextmanager
async def running(connector: FakeConnector | None = None) -> AsyncIterator[World]:
    world = World(connector or FakeConnector())
    async with trio.open_nursery() as nursery:
        await nursery.start(world.run)
        yield world
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(connector: FakeConnector | None = None) -> AsyncIterator[World]:
    async with running(connector) as world:
        await world.connect()
        yield world


async def show_code(session: Session) -> None:
    await session.set_state(ConnectionState.CONNECTING)
    await session.show_qr_code(CODE)


async def test_a_connection_opens_and_tells_of_it() -> None:
    async with running() as world:
        assert await world.connect() is None
        assert world.states.state("shop") is ConnectionState.OPEN
        assert world.connectors.is_running("shop")
        assert world.states.sender("shop") == "shop@fake"
        await wait_all_tasks_blocked()
        assert world.intake.states == [("connecting", 200), ("open", 200)]
        assert world.intake.events[1].data["profileName"] == "shop"
        assert [event.sender for event in world.intake.events] == [None, "shop@fake"]


async def test_connecting_gives_the_code_as_soon_as_there_is_one() -> None:
    async with running(FakeConnector(script=show_code)) as world:
        began = trio.current_time()
        assert await world.connect() == CODE
        assert trio.current_time() == began
        await wait_all_tasks_blocked()
        assert world.intake.events[-1].data == {
            "qrcode": {
                "instance": "shop",
                "code": "2@abc",
                "base64": "data:image/png;base64,AA==",
                "pairingCode": "ABCD",
            }
        }


async def test_a_code_without_a_pairing_code() -> None:
    async def script(session: Session) -> None:
        await session.show_qr_code(QRCode(code="c", base64="b"))

    async with connected(FakeConnector(script=script)) as world:
        await wait_all_tasks_blocked()
        shown = {"instance": "shop", "pairingCode": None, "code": "c", "base64": "b"}
        assert world.intake.events[0].data["qrcode"] == shown


async def test_connecting_waits_ten_seconds_for_a_code() -> None:
    async def script(session: Session) -> None:
        await trio.sleep_forever()

    async with running(FakeConnector(script=script)) as world:
        began = trio.current_time()
        assert await world.connect() is None
        assert trio.current_time() - began == 10


async def test_connecting_does_not_wait_for_a_connector_that_says_why_it_is_closed() -> None:
    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.CONNECTING)
        await session.set_state(ConnectionState.CLOSE, 400, message="Set the option token, not to planted-1.")
        await trio.sleep_forever()

    options = {"token": "planted-1"}
    instance = Instance(name="shop", id="0b0c", integration="fake", options=options)
    async with running(FakeConnector(script=script)) as world:
        began = trio.current_time()
        session = world.connectors.start(instance)
        assert await world.connectors.wait_for_code(session) is None
        assert trio.current_time() == began
        assert world.states.close_reason("shop") == "Set the option token, not to ********."
        with pytest.raises(Conflict, match="The instance 'shop' is not connected: Set the option token"):
            world.connectors.connected(instance)


async def test_connecting_does_not_wait_for_a_connector_that_fails() -> None:
    async def script(session: Session) -> None:
        raise KeyError("token")

    async with running(FakeConnector(script=script)) as world:
        began = trio.current_time()
        session = world.connectors.start(SHOP)
        assert await world.connectors.wait_for_code(session) is None
        assert trio.current_time() == began
        with pytest.raises(Conflict, match=r"not connected: .*KeyError.* It starts again after 1 s\."):
            world.connectors.connected(SHOP)


async def test_connecting_does_not_wait_for_a_connector_that_is_done() -> None:
    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.CLOSE, 401)
        world.connector.log_out("shop")

    async with running(FakeConnector(script=script)) as world:
        began = trio.current_time()
        assert await world.connect() is None
        assert trio.current_time() == began
        await wait_all_tasks_blocked()
        assert not world.connectors.is_running("shop")


async def test_connecting_twice_starts_one_connector() -> None:
    async with running() as world:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.connect)
            nursery.start_soon(world.connect)
        await world.connect()
        assert world.connector.runs == 1


async def test_a_session_knows_its_instance() -> None:
    async with connected() as world:
        session = world.connector.session("shop")
        assert (session.instance, session.options) == ("shop", {"token": "t"})


async def test_an_open_connection_takes_the_code_back() -> None:
    async with connected(FakeConnector(script=show_code)) as world:
        await world.connector.session("shop").set_state(ConnectionState.OPEN)
        assert await world.connect() is None


async def test_a_state_is_told_once() -> None:
    async with connected() as world:
        for _ in range(3):
            await world.connector.session("shop").set_state(ConnectionState.OPEN, wuid="other@fake")
        assert world.intake.states == [("connecting", 200), ("open", 200)]
        assert world.states.sender("shop") == "other@fake"


async def test_stopping_tells_of_the_closed_connection_and_ends_the_run() -> None:
    async with connected() as world:
        await world.connectors.stop("shop")
        assert world.intake.states[-1] == ("close", 401)
        assert world.states.state("shop") is ConnectionState.CLOSE
        with pytest.raises(KeyError):
            world.connector.session("shop")
        await world.connectors.stop("shop")
        assert world.intake.states.count(("close", 401)) == 1
        assert world.logged_out == []


async def test_a_new_run_begins_only_after_the_old_one_has_cleaned_up() -> None:
    """Otherwise both would hold the account's session with the network."""
    clean: list[float] = []

    async def script(session: Session) -> None:
        try:
            await session.set_state(ConnectionState.OPEN)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            clean.append(trio.current_time())

    async with connected(FakeConnector(script=script)) as world:
        await world.connectors.stop("shop")
        assert clean == [trio.current_time()]
        await world.connect()
        assert world.connector.session("shop").instance == "shop"


async def test_a_connector_that_does_not_end_is_left_alone_and_no_longer_heard() -> None:
    heard: list[HookgwError] = []

    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)
                try:
                    await session.emit("MESSAGES_UPSERT", {})
                except Conflict as error:
                    heard.append(error)

    async with connected(FakeConnector(script=script)) as world:
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await world.connectors.stop("shop")
        assert trio.current_time() - began == 5
        await trio.sleep(200)
        assert [str(error) for error in heard] == ["This session of the instance 'shop' is over."]
        assert "MESSAGES_UPSERT" not in world.intake.kinds


@pytest.mark.parametrize(("change", "reason"), [("restart", 515), ("stop", 401)])
async def test_a_connector_ends_although_its_last_event_is_refused(change: str, reason: int) -> None:
    async with running() as world:
        world.states.note(update({"state": "open"}, "shop"))  # before its connector ran
        await world.connect()
        await wait_all_tasks_blocked()
        refused = Unavailable("disk full", retry_after=3600)
        world.intake.errors = [refused]
        first = world.states.sessions["shop"]
        began = trio.current_time()
        with capture_logs() as logs:
            if change == "restart":
                second = await world.connectors.restart(SHOP)
                assert second is world.states.sessions["shop"]
                await world.connectors.wait_for_code(second)
                assert world.states.state("shop") is ConnectionState.OPEN
            else:
                await world.connectors.stop("shop")
                assert not world.connectors.is_running("shop")
                assert world.states.state("shop") is ConnectionState.CLOSE
                assert world.states.close_reason("shop") == LOGGED_OUT_HERE
        assert trio.current_time() - began == REPORT_TIMEOUT
        closing = world.states.closing("shop")
        assert closing is not None
        assert closing.reason == reason
        assert first.state is ConnectionState.CLOSE
        with pytest.raises(Conflict, match="over"):
            await first.emit("MESSAGES_UPSERT", {})
        [warning] = [line for line in logs if line["event"] == "connection state not reported"]
        assert warning["instance"] == "shop"
        assert ("close", reason) not in world.intake.states
        world.connectors.stop_all()


async def test_a_logout_on_the_phone_is_told() -> None:
    async with connected() as world:
        world.connector.log_out("shop")
        await wait_all_tasks_blocked()
        assert world.intake.states[-1] == ("close", 401)
        assert world.logged_out == ["shop"]
        await world.connect()
        assert world.connector.runs == 2


async def test_a_failing_connector_is_started_again_ever_later() -> None:
    began: list[float] = []

    async def script(session: Session) -> None:
        began.append(trio.current_time())
        await show_code(session)
        if len(began) < 4:
            raise OSError("network down")

    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.states.state("shop") is ConnectionState.CLOSE
        await trio.sleep(60)
        assert [at - began[0] for at in began] == [0, 1, 3, 8]
        assert world.intake.states.count(("close", 500)) == 3
        assert world.states.state("shop") is ConnectionState.CONNECTING
        assert world.logged_out == []


async def test_a_failure_takes_the_code_back_even_where_no_state_was_told() -> None:
    async def script(session: Session) -> None:
        await session.show_qr_code(CODE)
        raise OSError("network down")

    async with running(FakeConnector(script=script)) as world:
        session = world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert session.qr_code is None


async def fail_in_a_group(session: Session) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise OSError("network down")


async def leave(session: Session) -> None:
    raise SystemExit(1)


@pytest.mark.parametrize("script", [fail_in_a_group, leave])
async def test_whatever_a_connector_raises_is_its_own(script: Any) -> None:
    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(2)
        assert world.connector.runs == 2


async def test_a_connector_that_fails_while_it_is_stopped_harms_nobody() -> None:
    async def script(session: Session) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("while cleaning up")

    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(SHOP)
        await wait_all_tasks_blocked()
        await world.connectors.stop("shop")
        assert not world.connectors.is_running("shop")
        assert world.connector.runs == 1


@pytest.mark.parametrize("error", [NotFound("The instance is gone."), Invalid("strict")])
async def test_a_state_that_is_not_taken_does_not_end_the_gateway(error: HookgwError) -> None:
    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        world.intake.errors = [error]
        raise OSError("network down")

    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(2)
        assert world.connector.runs == 2
        world.intake.errors = [error]
        await world.connectors.stop("shop")
        assert not world.connectors.is_running("shop")


async def test_a_connector_is_held_back_while_the_disk_refuses() -> None:
    async with connected() as world:
        world.intake.errors = [
            Unavailable("disk full", retry_after=2),
            Unavailable("disk full", retry_after=3),
        ]
        began = trio.current_time()
        with capture_logs() as logs:
            await world.connector.session("shop").emit("MESSAGES_UPSERT", {"a": 1}, event_id="e1")
        assert trio.current_time() - began == 5
        assert [log["event"] for log in logs] == ["connector held back", "connector no longer held back"]
        assert [event.id for event in world.intake.events].count("e1") == 1


async def test_ending_with_the_gateway_is_not_told() -> None:
    async with connected() as world:
        await wait_all_tasks_blocked()
        world.connectors.stop_all()
        await wait_all_tasks_blocked()
        assert world.intake.states[-1] == ("open", 200)
        assert world.logged_out == []
        with pytest.raises(Unavailable, match="shutting down"):
            world.connectors.start(Instance(name="other", id="2", integration="fake"))
        assert not world.connectors.is_running("other")
        world.connectors.stop_all()


async def test_nothing_starts_before_the_gateway_runs() -> None:
    world = World(FakeConnector())
    with pytest.raises(Unavailable):
        world.connectors.start(SHOP)
    world.connectors.stop_all()


def test_an_integration_must_be_a_connectors_name() -> None:
    clock: Any = None
    states = ConnectionStates()
    both = {
        name: ContainedConnector(check_connector(FakeConnector(name)), "mine", Boundary())
        for name in ("b", "a")
    }
    restarts = cast("Any", Restarts())
    connectors = Connectors(both, states, restarts, clock, CLIENTS, URLS, inbound_media(), EVENT_RULES)
    connectors.check_integration("")
    connectors.check_integration("a")
    with pytest.raises(Invalid, match=r"no connector 'c'\. Known connectors: a, b\."):
        connectors.check_integration("c")
    with pytest.raises(Invalid, match="none is installed"):
        Connectors(
            {}, states, restarts, clock, CLIENTS, URLS, inbound_media(), EVENT_RULES
        ).check_integration("a")


def update(data: Any, instance: str = "by-http") -> Event:
    return Event(id="e", kind="CONNECTION_UPDATE", instance=instance, data_json=Event.encode(data), time=0)


async def test_a_connector_knows_better_than_events() -> None:
    async with connected() as world:
        world.states.note(update({"state": "connecting"}, "shop"))
        assert world.states.state("shop") is ConnectionState.OPEN
        await world.connectors.stop("shop")
        assert world.states.state("shop") is ConnectionState.CLOSE


# Sending.


class Sender(FakeConnector):
    """A connector whose ``send`` is given."""

    def __init__(self, send: Any) -> None:
        super().__init__()
        self._send = send

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self._send()
        return answer


async def test_a_sent_message_is_told_of() -> None:
    async with connected() as world:
        message = await world.send()
        assert world.connector.sent == [SentMessage("shop", HI, "key")]
        assert message["message"] == {"conversation": "hi"}
        assert (world.intake.kinds[-1], world.intake.events[-1].data) == ("SEND_MESSAGE", message)


async def test_the_networks_reason_is_given() -> None:
    async with connected() as world:
        world.connector.refusal = "This number is not on the network."
        with pytest.raises(NetworkRefused, match="not on the network"):
            await world.send()
        assert "SEND_MESSAGE" not in world.intake.kinds


async def test_nothing_is_sent_without_an_open_connection() -> None:
    async with running(FakeConnector(script=show_code)) as world:
        with pytest.raises(Conflict, match="not connected"):
            await world.send()
        await world.connect()
        with pytest.raises(Conflict, match="not connected"):
            await world.send()
        with pytest.raises(Conflict, match="no connector"):
            await world.send(Instance(name="x", id="3"))


async def refuse_in_a_group() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise NetworkRefused("busy")


async def raise_it(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("send", "error", "sentence"),
    [
        (lambda: raise_it(Invalid("number: not a number.")), Invalid, "^number: not a number.$"),
        (refuse_in_a_group, NetworkRefused, "^busy$"),
        (lambda: raise_it(OSError("broken")), NetworkRefused, "connector 'fake' failed: OSError: broken"),
        (lambda: raise_it(trio.TooSlowError("own")), NetworkRefused, "failed: TooSlowError: own"),
        (lambda: raise_it(SystemExit(2)), NetworkRefused, "failed: SystemExit: 2"),
        (trio.sleep_forever, NetworkRefused, "did not answer within 30 s"),
        (
            trio.lowlevel.checkpoint,
            NetworkRefused,
            "returned a value of type NoneType; return the message as a dict",
        ),
    ],
)
async def test_a_connector_that_cannot_send(send: Any, error: type[HookgwError], sentence: str) -> None:
    async with connected(Sender(send)) as world:
        with pytest.raises(error, match=sentence):
            await world.send()
        assert world.states.state("shop") is ConnectionState.OPEN
        assert "SEND_MESSAGE" not in world.intake.kinds


async def test_a_message_that_is_no_json_is_the_connectors_fault() -> None:
    async def send() -> dict[str, Any]:
        return {"when": object()}

    async with connected(Sender(send)) as world:
        with pytest.raises(NetworkRefused, match="connector 'fake' failed: TypeError"):
            await world.send()


async def test_a_message_goes_out_whole_where_the_caller_goes_away() -> None:
    async def send() -> dict[str, Any]:
        await trio.sleep(5)
        return {"id": "m1"}

    async with connected(Sender(send)) as world:
        with trio.move_on_after(1) as patience:
            await world.send()
        assert patience.cancelled_caught
        await trio.sleep(10)
        assert world.intake.events[-1].data == {"id": "m1"}


@pytest.mark.parametrize("error", [Invalid("strict"), NotFound("gone")])
async def test_what_was_sent_is_sent_even_where_its_event_is_not_taken(error: HookgwError) -> None:
    async with connected() as world:
        await wait_all_tasks_blocked()
        world.intake.errors = [error]
        assert (await world.send())["status"] == "PENDING"


async def test_the_sender_waits_a_while_for_a_disk_that_refuses_and_the_event_comes() -> None:
    async with connected() as world:
        await wait_all_tasks_blocked()
        world.intake.errors = [Unavailable("disk full", retry_after=60)]
        began = trio.current_time()
        await world.send()
        assert trio.current_time() - began == 10
        await trio.sleep(60)
        assert world.intake.kinds[-1] == "SEND_MESSAGE"


async def test_a_message_under_way_when_the_gateway_stops() -> None:
    async with connected(Sender(trio.sleep_forever)) as world:

        async def send() -> None:
            with pytest.raises(Unavailable, match="may or may not have taken effect"):
                await world.send()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            world.connectors.stop_all()


async def test_a_session_that_is_closed_tells_it_once() -> None:
    intake = Intake()
    session = ConnectorSession(
        SHOP,
        ContainedConnector(check_connector(FakeConnector()), "mine", Boundary()),
        intake.accept,
        no_state,
        virtual_clock(),
        CLIENTS["mine"],
        URLS,
        inbound_media(),
        EVENT_RULES,
    )
    await session.set_state(ConnectionState.OPEN)
    await session.close()
    await session.close()
    assert [state for state, _ in intake.states] == ["open", "close"]
    with pytest.raises(Conflict):
        await session.set_state(ConnectionState.OPEN)


# Why a connection is closed.


class Returns(FakeConnector):
    """A connector whose run returns after its script."""

    async def run(self, session: Session) -> None:
        self.runs += 1
        await self.script(session)


async def nothing(_session: Session) -> None:
    await trio.lowlevel.checkpoint()


async def report_closed(session: Session) -> None:
    await session.set_state(ConnectionState.CLOSE, 401)


async def test_a_connector_that_returns_without_a_connection_has_failed() -> None:
    async with running(Returns(script=nothing)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.connectors.is_running("shop")
        reason = str(world.states.close_reason("shop"))
        assert reason.startswith("Plugin 'mine' failed in hookgw_connectors.run: run returned without a conn")
        assert reason.endswith("It starts again after 1 s.")
        await trio.sleep(30)
        assert world.connector.runs == 5
        assert [wait for _, _, wait in world.restarts.failures] == [1, 2, 5, 15, 60]
        assert world.logged_out == []


async def test_a_connector_says_why_it_is_closed() -> None:
    async def expire(session: Session) -> None:
        await connect_at_once(session)
        await session.set_state(ConnectionState.CLOSE, 401, message="The token has expired. Set another one.")
        await trio.sleep(1)

    async with running(Returns(script=expire)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.states.close_reason("shop") == "The token has expired. Set another one."
        await trio.sleep(1)  # also after its run has ended
        assert not world.connectors.is_running("shop")
        assert world.states.close_reason("shop") == "The token has expired. Set another one."


async def test_a_connector_that_begins_with_a_refusal_is_not_waited_for() -> None:
    async def refuse(session: Session) -> None:
        await trio.sleep(1)
        await session.set_state(ConnectionState.CLOSE, 401, message="The token is not valid.")
        await trio.sleep_forever()

    async with running(FakeConnector(script=refuse)) as world:
        session = world.connectors.start(SHOP)
        began = trio.current_time()
        assert await world.connectors.wait_for_code(session) is None
        assert trio.current_time() - began == 1
        assert world.states.close_reason("shop") == "The token is not valid."


@pytest.mark.parametrize("again", ["start", "restart"])
async def test_the_end_of_a_run_is_not_reported_after_the_next_run_begins(again: str) -> None:
    async with connected() as world:
        world.intake.errors = [Unavailable("The backlog is full.", retry_after=5.0)]
        world.connector.log_out("shop")
        await wait_all_tasks_blocked()
        assert world.intake.errors == []
        if again == "start":
            await world.connect()
        else:
            await world.connectors.wait_for_code(await world.connectors.restart(SHOP))
        await trio.sleep(60)
        assert [state for state, _ in world.intake.states] == ["connecting", "open"] * 2
        assert world.states.state("shop") is ConnectionState.OPEN
        assert world.logged_out == []


@pytest.mark.parametrize("script", [connect_at_once, report_closed])
async def test_a_connector_that_returns_after_a_report_was_logged_out(script: Any) -> None:
    async with running(Returns(script=script)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.logged_out == ["shop"]
        assert world.states.close_reason("shop") == "The network logged the account out."
        assert world.restarts.failures == []
        assert world.restarts.ended_instances == ["shop"]


async def test_a_closed_connection_always_has_a_reason() -> None:
    async def fail(session: Session) -> None:
        await connect_at_once(session)
        await trio.sleep(1)
        await session.set_state(ConnectionState.CLOSE, 428)
        await trio.sleep(1)
        raise OSError("network down.")  # a sentence, whose dot is not doubled

    async with running(FakeConnector(script=fail)) as world:
        assert world.states.close_reason("shop") is None
        await world.connect()
        assert world.states.close_reason("shop") is None
        await trio.sleep(1.5)
        assert (
            world.states.close_reason("shop")
            == "The connector reported that it is closed (statusReason 428)."
        )
        await trio.sleep(1)
        assert world.states.close_reason("shop") == (
            "Plugin 'mine' failed in hookgw_connectors.run: OSError: network down. It starts again after 1 s."
        )
        await world.connectors.stop("shop")
        assert world.states.close_reason("shop") == "The instance was logged out of its connector."
        world.states.forget("shop")
        assert world.states.close_reason("shop") is None


@pytest.mark.parametrize(
    "report",
    [
        lambda session: session.set_state("online"),
        lambda session: session.set_state(None),
        lambda session: session.set_state(ConnectionState.OPEN, "fine"),
        lambda session: session.show_qr_code("2@abc"),
        lambda session: session.show_qr_code(QRCode(code=5, base64="x")),  # type: ignore[arg-type]
        lambda session: session.emit("MESSAGES_UPSERT", object()),
    ],
)
async def test_a_wrong_report_is_the_connectors_failure(report: Any) -> None:
    async with running(FakeConnector(script=report)) as world:
        session = world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert (session.state, session.qr_code) == (ConnectionState.CLOSE, None)
        assert len(world.restarts.failures) == 1


async def test_a_state_by_its_name_is_a_state() -> None:
    async with running(FakeConnector(script=lambda session: session.set_state("open"))) as world:  # type: ignore[arg-type]
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.states.state("shop") is ConnectionState.OPEN


class Silent(FakeConnector):
    """Its network answers no call."""

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        await trio.sleep_forever()

    async def restart(self, session: Session) -> None:
        await trio.sleep_forever()

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        await trio.sleep_forever()


async def test_a_call_that_the_network_does_not_answer_has_a_deadline() -> None:
    async with connected(Silent()) as world:
        (warning,) = await world.connectors.apply_settings("shop", InstanceSettings())
        assert warning.endswith("The network did not answer within 30 s.")
        await world.connectors.prepare(SHOP, "restart")
        with pytest.raises(NetworkRefused, match="did not answer within 30 s"):
            await world.connectors.check_options("fake", {})
        assert trio.current_time() >= 90
        world.connectors.stop_all()


async def test_a_restart_begins_a_session_with_the_changed_record() -> None:
    async with connected() as world:
        first = world.states.sessions["shop"]
        second = await world.connectors.restart(replace(SHOP, options={"token": "other"}))
        assert (first.options, second.options) == ({"token": "t"}, {"token": "other"})
        with pytest.raises(Conflict, match="over"):
            await first.emit("MESSAGES_UPSERT", {})
        await world.connectors.wait_for_code(second)
        assert world.intake.states[2] == ("close", 515)
        assert world.logged_out == []
        world.connectors.stop_all()


@pytest.mark.parametrize("turns", range(12))
async def test_while_it_is_cancelled_an_instance_starts_or_is_refused(turns: int) -> None:
    """A request may ask for it at any moment of that."""
    world = World(FakeConnector())

    async def connect_later() -> None:
        with trio.CancelScope(shield=True):
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
        with suppress(Unavailable):
            world.connectors.start(SHOP)

    async with trio.open_nursery() as nursery:
        await nursery.start(world.run)
        nursery.cancel_scope.cancel()
        nursery.start_soon(connect_later)


async def test_another_reason_of_a_closed_connection_is_an_event_of_its_own() -> None:
    async def script(session: Session) -> None:
        await connect_at_once(session)
        for reason in (428, 428, 200, 401, 401, 2**40):
            await session.set_state(ConnectionState.CLOSE, reason)

    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(SHOP)
        await trio.sleep(0.5)
        assert world.intake.states[-2:] == [("close", 428), ("close", 401)]
        assert world.states.closing("shop") is not None
        assert world.states.closing("shop").reason == 401  # type: ignore[union-attr]
        # hookgw ends what is closed: that is no other reason.
        world.intake.events.clear()
        await world.connectors.restart(SHOP)
        assert ("close", 515) not in world.intake.states


async def test_the_reason_of_before_a_restart_is_no_event_again() -> None:
    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.CLOSE, 401)
        await session.set_state(ConnectionState.CLOSE, 403)

    known = replace(SHOP, disconnection=Disconnection(at=1, code=401))
    async with running(FakeConnector(script=script)) as world:
        world.connectors.start(known)
        await trio.sleep(0.5)
        assert world.intake.states == [("close", 403)]
