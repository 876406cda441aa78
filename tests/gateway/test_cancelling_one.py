"""Cancelling one delivery, so that its lane goes on with the next."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, HookgwError, LaneState, NotFound
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, hang, open_kit
from tests.gateway.test_pending import KIND, emit
from tests.public.fleet import Gathered
from tests.public.kernel import Forbidden, LaneElsewhere, StorageUnavailable, parse_rate
from tests.public.records import DeliverySelection, Ordering
from tests.public.store import AuditQuery, DeliveryReport
from tests.support.kit import states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DEAD, DELIVERED, PENDING = DeliveryState.DEAD, DeliveryState.DELIVERED, DeliveryState.PENDING
CANCELLED = "Cancelled by hookgw."


async def report(kit: GatewayKit, event_id: str) -> DeliveryReport:
    return await kit.gateway.history.find("shop", event_id)


async def skip(kit: GatewayKit, event_id: str, **more: Any) -> DeliveryReport:
    found = await report(kit, event_id)
    await kit.gateway.deliveries.cancel_one("shop", found.summary.id, **more)
    return await report(kit, event_id)


def refuse_the_first(request: Received) -> Any:
    """Answer 502 to one certain body."""
    return answer(502) if request.event_id == "shop-0" else answer()


async def test_a_lane_goes_on_behind_a_head_that_waits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = refuse_the_first
    await hookgw_gateway.register(hookgw_receiver.url)
    first, *others = await emit(hookgw_gateway, 5)
    for _ in range(8):  # by now it waits for seconds, on disk
        await hookgw_gateway.advance(2)
    (lane,) = hookgw_gateway.gateway.lanes()
    assert (lane.state, lane.backlog) == (LaneState.WAITING, 5)
    tried = len(hookgw_receiver.ids)
    found = await skip(hookgw_gateway, first)
    await hookgw_gateway.settled()
    assert (found.summary.state, found.summary.reason) == (DEAD, CANCELLED)
    assert hookgw_receiver.ids[tried:] == others
    assert hookgw_gateway.gateway.backlog.count == 0
    hookgw_receiver.default = answer()
    await hookgw_gateway.gateway.deliveries.resend("shop", first)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[-1] == first
    assert len({request.body for request in hookgw_receiver.requests if request.event_id == first}) == 1


async def test_an_attempt_in_flight_is_cut_off_and_recorded_with_its_body(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    first, *others = await emit(hookgw_gateway, 3)
    await hookgw_receiver.wait_for(1)
    found = await skip(hookgw_gateway, first)
    await hookgw_receiver.wait_for(3)
    await hookgw_gateway.settled()
    assert (found.summary.state, found.summary.attempts) == (DEAD, 1)
    (attempt,) = found.attempts
    assert attempt.error is not None
    assert attempt.error.startswith("The attempt was cut off")
    assert attempt.url == hookgw_receiver.url
    assert hookgw_receiver.ids == [first, *others]
    assert len({request.connection for request in hookgw_receiver.requests[:2]}) == 2
    await hookgw_gateway.gateway.deliveries.resend("shop", first)
    await hookgw_gateway.settled()
    again = hookgw_receiver.requests[-1]
    assert (again.event_id, again.header("x-attempt")) == (first, "2")
    assert again.body == hookgw_receiver.requests[0].body


@pytest.mark.parametrize("behind", [1, 400])
async def test_one_that_is_not_the_head_goes_and_the_attempt_in_flight_does_not(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, behind: int
) -> None:
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, behind + 2)
    await hookgw_receiver.wait_for(1)
    found = await skip(hookgw_gateway, ids[behind])
    assert (found.summary.state, found.attempts) == (DEAD, ())
    assert hookgw_receiver.ids == ids[:1]
    hookgw_clock.jump(FIRST_WAIT)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [one for one in ids if one != ids[behind]]


async def test_the_wait_of_a_head_that_stays_is_not_cut_short(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "100"}))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    await skip(hookgw_gateway, ids[1])
    await hookgw_gateway.advance(90)
    assert hookgw_receiver.ids == ids[:1]
    await hookgw_gateway.advance(11)
    assert hookgw_receiver.ids == [ids[0], ids[0], ids[2]]


async def test_a_response_that_comes_first_wins_and_the_answer_says_so(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    cut_off = type(gateway.dispatcher).cut_off

    def respond_first(*args: Any) -> None:
        # In the moment of the call the response is there, and its outcome on the way to the disk.
        return None

    monkeypatch.setattr(type(gateway.dispatcher), "cut_off", respond_first)
    refusals: list[HookgwError] = []

    async def skip_late() -> None:
        try:
            await skip(hookgw_gateway, ids[0])
        except HookgwError as error:
            refusals.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(skip_late)
        await trio.testing.wait_all_tasks_blocked(0.05)
        hookgw_clock.jump(FIRST_WAIT)
    monkeypatch.setattr(type(gateway.dispatcher), "cut_off", cut_off)
    await hookgw_gateway.settled()
    (refusal,) = refusals
    assert isinstance(refusal, Conflict)
    assert "is delivered" in str(refusal)
    assert hookgw_receiver.ids == ids
    assert await states(hookgw_gateway) == dict.fromkeys(ids, DELIVERED)


async def test_of_two_calls_at_once_one_cancels_and_the_other_is_told(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    answers: list[str] = []

    async def skip_it() -> None:
        try:
            answers.append((await skip(hookgw_gateway, ids[0])).summary.reason or "")
        except Conflict as error:
            answers.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(skip_it)
        nursery.start_soon(skip_it)
    await hookgw_gateway.settled()
    first, second = sorted(answers)
    assert first == CANCELLED
    assert "a dead letter already" in second
    assert hookgw_receiver.ids == ids


@pytest.mark.parametrize("ordering", [Ordering.CHAT, Ordering.NONE, Ordering.INSTANCE])
async def test_other_lanes_do_not_stop(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, ordering: Ordering
) -> None:
    hookgw_receiver.default = hang()
    await hookgw_gateway.register(hookgw_receiver.url, ordering=ordering, concurrency=3)
    await emit(hookgw_gateway, 9)
    lanes = 1 if ordering is Ordering.INSTANCE else len(await hookgw_gateway.gateway.store.pending_lanes())
    await hookgw_receiver.wait_for(lanes)
    heads = [str(one) for one in hookgw_receiver.ids]
    hookgw_receiver.default = answer()
    lane = (await skip(hookgw_gateway, heads[0])).summary.lane
    with trio.fail_after(20):
        while await hookgw_gateway.gateway.store.count_pending(lane):
            await trio.testing.wait_all_tasks_blocked(0.001)
    found = await states(hookgw_gateway)
    assert found[heads[0]] is DEAD
    # Those of the other lanes are in flight still.
    assert [found[one] for one in heads[1:]] == [PENDING] * (lanes - 1)
    hookgw_clock.jump(100)
    await hookgw_gateway.advance(100)
    assert all(state is DELIVERED for one, state in (await states(hookgw_gateway)).items() if one != heads[0])


async def test_a_paused_lane_stays_paused(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await gateway.registrations.pause("shop")
    ids = await emit(hookgw_gateway, 3)
    await skip(hookgw_gateway, ids[0])
    with trio.fail_after(20):
        while [(lane.state, lane.backlog) for lane in gateway.lanes()] != [(LaneState.PAUSED, 2)]:
            await trio.testing.wait_all_tasks_blocked(0.001)
    assert hookgw_receiver.ids == []
    await gateway.registrations.resume("shop")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids[1:]


async def test_a_lane_that_waits_for_its_rate(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, rate=parse_rate("1/s"))
    ids = await emit(hookgw_gateway, 4)
    await hookgw_receiver.wait_for(1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    waiting = [one for one in ids if one not in hookgw_receiver.ids]
    await skip(hookgw_gateway, waiting[0])
    for _ in range(8):
        await hookgw_gateway.advance(1)
    assert hookgw_receiver.ids == [one for one in ids if one != waiting[0]]


async def test_a_lane_that_waits_for_a_connection(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(hang())
    async with open_kit(tmp_path, settings={"delivery": {"host_connections": 1}}) as kit:
        await kit.register(hookgw_receiver.url, instance="bar")
        await emit(kit, 1, instance="bar")
        await hookgw_receiver.wait_for(1)
        await kit.register(hookgw_receiver.url)
        ids = await emit(kit, 2)
        while kit.gateway.dispatcher.lanes(kit.gateway.registrations.get("shop", "default").id)[
            0
        ].waits_for != ("connection"):
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert (await skip(kit, ids[0])).summary.state is DEAD
        found = await kit.gateway.history.find("bar", "bar-0")
        await kit.gateway.deliveries.cancel_one("bar", found.summary.id)
        await kit.settled()
        assert hookgw_receiver.ids == ["bar-0", ids[1]]


async def test_deliveries_that_move_to_other_lanes_stay_cancelled(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async def wait(_: Received) -> Answer:
        await may_answer.wait()
        return answer()

    may_answer = trio.Event()
    hookgw_receiver.will(hang())
    hookgw_receiver.default = wait  # else the last one may be delivered before it is cancelled
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 6)
    await hookgw_receiver.wait_for(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(skip, hookgw_gateway, ids[0])
        nursery.start_soon(skip, hookgw_gateway, ids[3])
        await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=3)
        await skip(hookgw_gateway, ids[4])
        may_answer.set()
    await hookgw_gateway.settled()
    found = {id_: (await report(hookgw_gateway, id_)).summary.state for id_ in ids}
    cancelled = {ids[0], ids[3], ids[4]}
    assert found == {id_: DEAD if id_ in cancelled else DELIVERED for id_ in ids}
    sent = [str(id_) for id_ in hookgw_receiver.ids if id_ not in cancelled]
    assert sorted(sent) == [ids[1], ids[2], ids[5]]


async def test_what_is_refused(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    settings = {"global_webhooks": [{"url": f"{hookgw_receiver.url}?global"}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        cancel = kit.gateway.deliveries.cancel_one
        await kit.gateway.instances.create("shop")
        await kit.emit(KIND, {}, event_id="shop-0")
        await kit.settled()
        found = (await report(kit, "shop-0")).summary
        with pytest.raises(NotFound):
            await cancel("shop", "dlv_999")
        with pytest.raises(NotFound):
            await cancel("nobody", found.id)
        with pytest.raises(Forbidden, match="global key"):
            await cancel("shop", found.id, without_global=True)
        with pytest.raises(NotFound):  # a tenant finds its own deliveries of an event
            await cancel("shop", "shop-0", without_global=True)
        assert (await cancel("shop", found.id)).state is DEAD
        with pytest.raises(Conflict, match="a dead letter already"):
            await cancel("shop", found.id)


async def test_a_disk_that_refuses_cancels_nothing_and_cuts_nothing_off(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 1)
    await hookgw_receiver.wait_for(1)

    def refuse() -> None:
        raise StorageUnavailable("The disk is full.")

    monkeypatch.setattr(hookgw_gateway.gateway.store, "check_open", refuse)
    with pytest.raises(StorageUnavailable):
        await skip(hookgw_gateway, ids[0])
    hookgw_clock.jump(FIRST_WAIT)
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == {ids[0]: DELIVERED}


async def test_a_caller_that_leaves_does_not_stop_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    name = (await report(hookgw_gateway, ids[0])).summary.id
    with trio.CancelScope() as scope:
        take_step = hookgw_gateway.gateway.store.cancel_one

        async def leave(*args: Any, **kwargs: Any) -> bool:
            scope.cancel()
            return await take_step(*args, **kwargs)

        hookgw_gateway.gateway.store.cancel_one = leave  # type: ignore[method-assign]
        await hookgw_gateway.gateway.deliveries.cancel_one("shop", name)
    await hookgw_gateway.settled()
    assert (await states(hookgw_gateway))[ids[0]] is DEAD
    assert hookgw_receiver.ids == ids


async def test_a_restart_after_the_call_sends_nothing_of_it(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(hang())
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit(kit, 2)
        await hookgw_receiver.wait_for(1)
        await skip(kit, ids[0])
    async with open_kit(tmp_path) as kit:
        await kit.settled()
        assert (await states(kit))[ids[0]] is DEAD
    assert hookgw_receiver.ids == ids


async def test_beside_a_cancellation_of_many(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 3)
    await hookgw_receiver.wait_for(1)
    async with trio.open_nursery() as nursery:
        # It waits for the attempt, which this ends.
        nursery.start_soon(hookgw_gateway.gateway.deliveries.cancel, "shop", DeliverySelection())
        await trio.testing.wait_all_tasks_blocked(0.01)
        await skip(hookgw_gateway, ids[0])
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == dict.fromkeys(ids, DEAD)
    assert hookgw_receiver.ids == ids[:1]


async def test_the_audit_names_the_delivery(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:

    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 1)
    await hookgw_receiver.wait_for(1)
    found = await skip(hookgw_gateway, ids[0])
    page = await hookgw_gateway.gateway.store.list_audit(AuditQuery())
    (entry,) = [one for one in page.entries if one.action == "delivery.cancel"]
    assert (entry.subject, entry.instance, dict(entry.details)) == (
        found.summary.id,
        "shop",
        {"label": "default"},
    )


async def test_another_node_cancels_the_delivery_that_the_caller_may_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "http://127.0.0.1:9/"
    configured = [{"label": "everything", "url": nobody}]
    async with open_kit(tmp_path, settings={"global_webhooks": configured}) as kit:
        await kit.register(nobody)
        (event,) = await emit(kit, 1)
        own = await kit.gateway.history.find("shop", event, without_global=True)
        asked, ask_all = [], kit.gateway.views.nodes.ask

        async def ask(question: Any, one: Any, **more: Any) -> Any:
            if question.name != "cancel":
                return await ask_all(question, one, **more)
            asked.append(one.delivery)
            return Gathered({})

        with monkeypatch.context() as patched:
            patched.setattr(kit.gateway.dispatcher, "holds", lambda _: False)
            patched.setattr(kit.gateway.views.nodes, "ask", ask)
            with pytest.raises(LaneElsewhere):
                await kit.gateway.views.cancel_one("shop", event, without_global=True)
        assert asked == [own.summary.id]
