"""Receivers that answer after the deadline: each of them gets each event once."""

import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme
from trio.testing import MockClock

import hookgw
from hookgw import DeliveryState, Event, Outcome
from hookgw.testing import Answer, GatewayKit, Hang, Received, Receiver, answer, open_kit, open_receiver
from tests.faults.support import KIND, attempts_of, report_of, state_of, wait_of
from tests.public.delivery import default_ssl_context
from tests.support.disks import make_read_only, writes_again

pytestmark = pytest.mark.usefixtures("hookgw_clock")

TIMEOUT = 30.0
TOOK = 40.0


async def run_into_the_deadline(kit: GatewayKit, receiver: Receiver, event: Event) -> None:
    """Wait for the first request, and let the deadline of its attempt pass."""
    await receiver.wait_for(1)
    kit.clock.jump(TIMEOUT + 0.1)
    await kit.settled()
    assert [one.outcome for one in await attempts_of(kit, event)] == [Outcome.UNANSWERED]
    assert wait_of(kit) > TIMEOUT - 1


async def wait_for_state(kit: GatewayKit, event: Event, state: DeliveryState) -> None:
    with trio.fail_after(1000):
        while await state_of(kit, event) is not state:
            await kit.settled()


@pytest.mark.parametrize(
    "late",
    [
        answer(wait=TOOK),
        answer(204, wait=TOOK),
        answer(wait=TOOK, framing="close"),
        answer(wait=TOOK, keep_alive=False),
        answer(wait=TOOK, informational=(103,)),
        answer(body=b"x" * 100_000, wait=TOOK),
        answer(body=b"x" * 100, wait=TOOK).cut(60, Hang()),
    ],
    ids=["200", "204", "ends by closing", "says close", "after a 103", "100 kB", "stops in its body"],
)
async def test_a_receiver_that_answers_after_40_s_gets_each_event_once(
    late: Answer, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(late)
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, first)
    hookgw_clock.jump(TOOK - TIMEOUT)
    await hookgw_receiver.wait_for(1)
    for _ in range(3):
        await hookgw_gateway.advance(0.5)
    await wait_for_state(hookgw_gateway, second, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == [first.id, second.id]
    report = await report_of(hookgw_gateway, first)
    [attempt] = report.attempts
    assert (report.summary.state, attempt.outcome) == (DeliveryState.DELIVERED, Outcome.UNANSWERED)
    assert (report.summary.reason or "").startswith("Attempt 1 was answered late: status 20")
    [lane] = hookgw_gateway.gateway.lanes()
    assert (lane.backlog, lane.last_outcome, lane.last_error) == (0, Outcome.DELIVERED, None)


async def test_every_event_of_a_slow_receiver_comes_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(wait=TOOK)
    await hookgw_gateway.register(hookgw_receiver.url)
    events = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(4)]
    for number, event in enumerate(events, 1):
        await hookgw_receiver.wait_for(number)
        hookgw_clock.jump(TIMEOUT + 0.1)
        await hookgw_gateway.settled()
        hookgw_clock.jump(TOOK - TIMEOUT)
        if number < len(events):
            await hookgw_receiver.wait_for(number + 1)
        else:
            await wait_for_state(hookgw_gateway, event, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == [event.id for event in events]


@pytest.mark.parametrize(
    ("status", "state"), [(400, DeliveryState.DEAD), (410, DeliveryState.DEAD), (422, DeliveryState.DEAD)]
)
async def test_a_late_refusal_ends_the_delivery(
    status: int,
    state: DeliveryState,
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
) -> None:
    hookgw_receiver.will(answer(status, wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    hookgw_clock.jump(TOOK - TIMEOUT)
    await wait_for_state(hookgw_gateway, event, state)
    assert hookgw_receiver.ids == [event.id]
    [registration] = hookgw_gateway.gateway.registrations.of_instance("shop")
    assert registration.enabled is (status != 410)


@pytest.mark.parametrize("status", [302, 404, 500, 503, 504])
async def test_a_late_failure_changes_nothing_about_the_next_attempt(
    status: int, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(status, wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    hookgw_clock.jump(TOOK - TIMEOUT)
    with trio.fail_after(1000):
        said = f"The receiver answered {phrase(status)}"
        while not (hookgw_gateway.gateway.lanes()[0].last_error or "").startswith(said):
            await hookgw_gateway.settled()
            if status == 302:
                break
    wait = wait_of(hookgw_gateway)
    assert TIMEOUT - (TOOK - TIMEOUT) - 0.2 <= wait <= TIMEOUT * 1.1
    await hookgw_gateway.advance(wait + 0.1)
    assert hookgw_receiver.ids == [event.id] * 2
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED


def phrase(status: int) -> str:
    return {
        404: "404 Not Found.",
        500: "500 Internal Server Error.",
        503: "503 Service Unavailable.",
        504: "504 Gateway Timeout.",
    }.get(status, "")


async def test_without_a_late_response_the_event_is_sent_again_and_the_former_connection_is_closed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(wait=90))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    await hookgw_gateway.advance(TIMEOUT * 1.1)
    assert [one.outcome for one in await attempts_of(hookgw_gateway, event)] == [
        Outcome.UNANSWERED,
        Outcome.DELIVERED,
    ]
    assert hookgw_receiver.connections == 2
    hookgw_clock.jump(60)
    await hookgw_gateway.settled()
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED


async def test_a_receiver_that_closes_while_its_response_is_awaited_is_tried_when_it_is_due(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(wait=TOOK).cut(5))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    await hookgw_gateway.advance(TOOK - TIMEOUT)
    assert hookgw_receiver.ids == [event.id]
    await hookgw_gateway.advance(TIMEOUT)
    assert hookgw_receiver.ids == [event.id] * 2
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED


async def test_a_late_response_that_comes_in_a_pause_counts_when_it_ends(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    await hookgw_gateway.gateway.registrations.pause("shop")
    await hookgw_gateway.advance(TOOK - TIMEOUT)
    await hookgw_gateway.advance(100)
    assert await state_of(hookgw_gateway, event) is DeliveryState.PENDING
    await hookgw_gateway.gateway.registrations.resume("shop")
    await wait_for_state(hookgw_gateway, event, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == [event.id]


async def test_a_late_response_that_comes_while_a_plugin_hears_of_the_attempt_counts(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """The wait for the next attempt has passed when the plugin is done (seed 19931)."""

    class Slow:
        @hookgw.hookimpl
        async def hookgw_attempt(self, attempt: hookgw.Attempt) -> None:
            if attempt.outcome is Outcome.UNANSWERED:
                await trio.sleep(100)

    hookgw_receiver.will(answer(wait=TOOK))
    settings = {"plugins": {"hook_timeout": "90s"}}
    async with open_kit(tmp_path, plugins={"slow": Slow()}, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await hookgw_receiver.wait_for(1)
        for passed in (TIMEOUT + 0.1, TOOK - TIMEOUT, 90):
            hookgw_clock.jump(passed)
            await trio.testing.wait_all_tasks_blocked(0.05)
        await wait_for_state(kit, event, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == [event.id]


@pytest.mark.parametrize("asleep", [100.0, 4 * 86_400.0], ids=["for minutes", "beyond max_age"])
async def test_a_late_response_that_came_while_the_machine_slept_counts(
    asleep: float, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """It comes while the head, which is due already, is read from disk again."""
    hookgw_receiver.will(answer(wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    hookgw_clock.jump(asleep)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [event.id]
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED


class SlowlyPrepared:
    """A plugin that prepares the second attempt until it may go on."""

    def __init__(self, *, fails: bool = False) -> None:
        self.began, self.goes_on = trio.Event(), trio.Event()
        self._fails = fails

    @hookgw.hookimpl
    async def hookgw_prepare(self, request: hookgw.Outgoing) -> None:
        if request.attempt > 1:
            self.began.set()
            await self.goes_on.wait()
            if self._fails:
                raise ValueError("no token")


@pytest.mark.parametrize("fails", [False, True], ids=["the plugin returns", "the plugin raises"])
@pytest.mark.parametrize(
    "late",
    [answer(wait=80), answer(body=b"x" * 100, wait=80).cut(60, Hang())],
    ids=["200", "stops in its body"],
)
async def test_a_late_response_that_comes_while_a_plugin_prepares_the_next_attempt_counts(
    late: Answer, fails: bool, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    slow = SlowlyPrepared(fails=fails)
    hookgw_receiver.will(late)
    settings = {"plugins": {"hook_timeout": "90s"}, "delivery": {"schedule": ["5s"]}}
    async with open_kit(tmp_path, plugins={"slow": slow}, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await run_into_the_deadline(kit, hookgw_receiver, event)
        hookgw_clock.jump(wait_of(kit) + 0.1)
        await slow.began.wait()
        hookgw_clock.jump(20)
        await trio.testing.wait_all_tasks_blocked(0.05)
        slow.goes_on.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        hookgw_clock.jump(1.1)  # the end of the body has a second
        await wait_for_state(kit, event, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == [event.id]


async def test_a_late_failure_that_comes_while_a_plugin_prepares_the_next_attempt_changes_nothing(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    slow = SlowlyPrepared()
    hookgw_receiver.will(answer(500, wait=80))
    async with open_kit(
        tmp_path, plugins={"slow": slow}, settings={"plugins": {"hook_timeout": "90s"}}
    ) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await run_into_the_deadline(kit, hookgw_receiver, event)
        hookgw_clock.jump(wait_of(kit) + 0.1)
        await slow.began.wait()
        hookgw_clock.jump(20)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert kit.gateway.lanes()[0].last_error == "The receiver answered 500 Internal Server Error."
        slow.goes_on.set()
        await wait_for_state(kit, event, DeliveryState.DELIVERED)
        outcomes = [one.outcome for one in await attempts_of(kit, event)]
    assert outcomes == [Outcome.UNANSWERED, Outcome.DELIVERED]
    assert hookgw_receiver.ids == [event.id] * 2


async def test_a_late_response_that_comes_while_the_lane_waits_for_a_connection_counts(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """The other lanes of its instance have all that it may have, because another one uses the host, too."""
    hookgw_receiver.default = answer(wait=100)
    hookgw_receiver.will(answer(wait=80), answer())
    async with open_kit(tmp_path, settings={"delivery": {"host_connections": 4}}) as kit:
        await kit.register(hookgw_receiver.url)
        first = await kit.emit(KIND, {})
        await run_into_the_deadline(kit, hookgw_receiver, first)
        await kit.register(hookgw_receiver.url, instance="bank")
        other = await kit.emit(KIND, {}, instance="bank")
        await hookgw_receiver.wait_for(2)
        for label in ("b", "c", "d"):
            await kit.register(hookgw_receiver.url, label=label, timeout=300)
        second = await kit.emit(KIND, {})
        await hookgw_receiver.wait_for(5)
        hookgw_clock.jump(TIMEOUT * 1.1)
        with trio.fail_after(1000):
            while not any(lane.waits_for == "connection" for lane in kit.gateway.lanes()):
                await trio.testing.wait_all_tasks_blocked(0.01)
        hookgw_clock.jump(20)
        with trio.fail_after(1000):
            while await state_of(kit, first) is not DeliveryState.DELIVERED:
                await trio.testing.wait_all_tasks_blocked(0.01)
        hookgw_receiver.default = answer()
        hookgw_clock.jump(60)
        await kit.settled()
    assert hookgw_receiver.ids == [first.id, other.id] + [second.id] * 4


async def test_a_late_response_of_a_former_target_does_not_count(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, event)
    async with open_receiver() as other:
        await hookgw_gateway.register(other.url)
        await hookgw_gateway.settled()
        assert other.ids == [event.id]
    hookgw_clock.jump(TOOK - TIMEOUT)
    await hookgw_gateway.settled()
    assert [one.outcome for one in await attempts_of(hookgw_gateway, event)][1:] == [Outcome.DELIVERED]


async def test_a_delivery_that_is_cancelled_meanwhile_stays_cancelled_and_the_next_one_is_sent(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(wait=TOOK))
    await hookgw_gateway.register(hookgw_receiver.url)
    first = await hookgw_gateway.emit(KIND, {})
    await run_into_the_deadline(hookgw_gateway, hookgw_receiver, first)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=True)
    second = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    hookgw_clock.jump(TOOK - TIMEOUT)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id, second.id]
    assert await state_of(hookgw_gateway, first) is DeliveryState.DEAD
    assert await state_of(hookgw_gateway, second) is DeliveryState.DELIVERED


async def test_a_restart_loses_a_late_response_and_keeps_the_wait(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(wait=TOOK))
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await run_into_the_deadline(kit, hookgw_receiver, event)
    async with open_kit(tmp_path) as kit:
        await kit.settled()
        assert TIMEOUT - 1 <= wait_of(kit) <= TIMEOUT * 1.1
        await kit.advance(TIMEOUT * 1.1)
        assert await state_of(kit, event) is DeliveryState.DELIVERED
    assert hookgw_receiver.ids == [event.id] * 2


async def test_a_connection_that_awaits_a_response_is_given_up_when_its_host_runs_short(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(wait=TOOK))
    async with open_kit(tmp_path, settings={"delivery": {"host_connections": 1}}) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await run_into_the_deadline(kit, hookgw_receiver, event)
        await kit.register(hookgw_receiver.url, label="other", instance="bank")
        other = await kit.emit(KIND, {}, instance="bank")
        await kit.settled()
        assert hookgw_receiver.ids == [event.id, other.id]
        await kit.advance(TOOK - TIMEOUT)
        await kit.advance(TIMEOUT)
        assert hookgw_receiver.ids == [event.id, other.id, event.id]
        assert await state_of(kit, event) is DeliveryState.DELIVERED


async def test_a_late_response_over_tls_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hookgw_clock: MockClock
) -> None:
    authority, file = trustme.CA(), tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    default_ssl_context.cache_clear()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    try:
        async with open_receiver(ssl_context=context) as receiver, open_kit(tmp_path) as kit:
            receiver.will(answer(wait=TOOK))
            await kit.register(receiver.url)
            first, second = [await kit.emit(KIND, {"n": n}) for n in range(2)]
            await run_into_the_deadline(kit, receiver, first)
            hookgw_clock.jump(TOOK - TIMEOUT)
            await wait_for_state(kit, second, DeliveryState.DELIVERED)
            assert receiver.ids == [first.id, second.id]
    finally:
        default_ssl_context.cache_clear()


async def test_a_late_response_counts_while_the_disk_refuses(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """The head stays in memory then, and its lane waits for the disk and for the response."""
    store = hookgw_gateway.gateway.store

    def the_disk_refuses_now(_: Received) -> Answer:
        make_read_only(store, True)
        return answer(wait=TOOK)

    hookgw_receiver.will(the_disk_refuses_now)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.settled()
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_receiver.wait_for(1)
    hookgw_clock.jump(TIMEOUT + 0.1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    hookgw_clock.jump(TOOK - TIMEOUT)
    with trio.fail_after(1000):
        while hookgw_gateway.gateway.lanes()[0].last_outcome is not Outcome.DELIVERED:
            await trio.testing.wait_all_tasks_blocked(0.01)
    hookgw_clock.jump(TIMEOUT * 2)
    await trio.testing.wait_all_tasks_blocked(0.01)
    make_read_only(store, False)
    await writes_again(store, hookgw_clock)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [event.id]
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED
