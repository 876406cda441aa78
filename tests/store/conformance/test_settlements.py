"""Outcomes of deliveries."""

import msgspec
import pytest
import trio
import trio.testing

from hookgw import Attempt, DeliveryState, Outcome
from tests.public.records import LaneRule, Settlement
from tests.public.store import Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    AT,
    LANE,
    RULE,
    attempt,
    dead,
    delivered,
    dropped,
    failed,
    pending,
    pending_of,
    report,
    seqs_of,
    settle,
    to,
)


@pytest.fixture
async def seq(store: Store) -> int:
    await store.append(to("e1"))
    return (await seqs_of(store))[0]


async def test_a_delivered_one_leaves_the_outbox(store: Store, seq: int) -> None:
    await settle(store, delivered(seq))
    assert await seqs_of(store) == []
    found = await report(store)
    assert found.summary.state is DeliveryState.DELIVERED
    assert (found.summary.finished_at, found.summary.reason) == (AT, None)
    assert found.attempts == (attempt(),)
    assert found.summary.last_attempt == attempt()


async def test_each_attempt_has_the_url_that_it_was_sent_to(store: Store, seq: int) -> None:
    urls = ["https://old.example/a", None, "https://********@new.example/ü"]
    made = [attempt(number, Outcome.FAILED, url=url) for number, url in enumerate(urls, 1)]
    await settle(store, *(Settlement(seq=seq, state=DeliveryState.PENDING, at=AT, attempt=a) for a in made))
    found = await report(store)
    assert [one.url for one in found.attempts] == urls
    assert found.summary.last_attempt is not None
    assert found.summary.last_attempt.url == urls[-1]


async def test_a_failed_one_stays_with_its_counters_and_body(store: Store, seq: int) -> None:
    await settle(store, failed(seq, next_at=AT + 5.5))
    await settle(store, failed(seq, number=2, body=None, next_at=AT + 20))
    [left] = await pending(store)
    assert (left.attempts, left.failures, left.next_at, left.body) == (2, 2, AT + 20, b"body")
    found = await report(store)
    assert [made.number for made in found.attempts] == [1, 2]
    assert (found.summary.finished_at, found.summary.next_at) == (None, AT + 20)


@pytest.mark.parametrize("last", [delivered(1, number=2), dropped(1), dead(1)], ids=lambda last: last.state)
async def test_a_stored_body_is_sent_again_however_the_delivery_ended(
    store: Store, seq: int, last: Settlement
) -> None:
    await settle(store, failed(seq, body=b"fixed"), Settlement(seq=seq, state=last.state, at=AT))
    assert await store.resend("shop", seq, RULE) == LANE
    assert [delivery.body for delivery in await pending(store)] == [b"fixed"]


async def test_the_reason_is_the_last_error_unless_another_is_given(store: Store, seq: int) -> None:
    await store.append(to("e2", "e3"))
    _, second, third = await seqs_of(store)
    await settle(store, dead(seq), dead(second, reason="It was too old."), dropped(third, "filtered by x"))
    assert (await report(store, "e1")).summary.reason == "The receiver answered 422."
    assert (await report(store, "e2")).summary.reason == "It was too old."
    found = await report(store, "e3")
    assert (found.summary.reason, found.attempts, found.summary.last_attempt) == ("filtered by x", (), None)


async def test_only_a_pending_delivery_is_settled(store: Store, seq: int) -> None:
    await settle(store, dead(seq))
    await settle(store, delivered(seq, number=2), delivered(999))
    found = await report(store)
    assert found.summary.state is DeliveryState.DEAD
    assert [made.number for made in found.attempts] == [1]
    assert await pending_of(store) == 0


async def test_several_settlements_of_one_delivery_at_once(store: Store, seq: int) -> None:
    await settle(
        store,
        failed(seq, number=1),
        failed(seq, number=2, body=None),
        delivered(seq, number=3),
        dead(seq, number=4),
    )
    found = await report(store)
    assert (found.summary.state, found.summary.attempts) == (DeliveryState.DELIVERED, 3)
    assert [made.number for made in found.attempts] == [1, 2, 3]
    assert await pending_of(store) == 0


async def test_deliveries_with_unlike_ends_in_one_commit(store: Store) -> None:
    await store.append(to("e1", "e2", "e3", "e4", "e5"))
    first, second, third, fourth, fifth = await seqs_of(store)
    made = attempt(status=204, duration=0.25, at=AT - 1, answer="tudo \udcff", url="https://example.com/a")
    await settle(
        store,
        Settlement(seq=first, state=DeliveryState.DELIVERED, at=AT + 1, attempt=made),
        failed(second),
        delivered(third, number=2),  # after a replay
        delivered(fourth),
        delivered(second, number=2),
        dropped(fifth),
    )
    found = [await report(store, f"e{number}") for number in range(1, 6)]
    assert [one.summary.state for one in found] == [*[DeliveryState.DELIVERED] * 4, DeliveryState.DROPPED]
    assert [one.summary.attempts for one in found] == [1, 2, 2, 1, 0]
    assert [one.summary.finished_at for one in found] == [AT + 1, AT, AT, AT, AT]
    kept = msgspec.structs.replace(made, answer="tudo ?")
    assert found[0].attempts == (kept,)
    assert [[a.number for a in one.attempts] for one in found] == [[1], [1, 2], [2], [1], []]
    assert await pending_of(store) == 0


async def test_what_was_sent_and_answered_is_kept_of_a_failed_attempt(store: Store, seq: int) -> None:
    heads = {"request_head": "POST / HTTP/1.1\nx-own: tudo \udcff", "response_headers": "retry-after: 30"}
    made = attempt(1, Outcome.FAILED, status=503, **heads)
    alone = attempt(2, Outcome.UNANSWERED, status=None, request_head="POST / HTTP/1.1")
    one = Settlement(seq=seq, state=DeliveryState.PENDING, at=AT, attempt=made, body=b"sent")
    await settle(store, one, Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, attempt=alone))
    found = await report(store)
    kept = msgspec.structs.replace(made, request_head="POST / HTTP/1.1\nx-own: tudo ?")
    assert (found.attempts, found.body) == ((kept, alone), b"sent")
    last = found.summary.last_attempt
    assert last is not None
    assert last.request_head is None  # lists do without


async def test_one_settlement_twice(store: Store, seq: int) -> None:
    await settle(store, failed(seq), failed(seq))
    assert len((await report(store)).attempts) == 1


async def test_a_settlement_without_an_attempt_keeps_the_count(store: Store, seq: int) -> None:
    expired = Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, failures=1, reason="expired")
    await settle(store, failed(seq), expired)
    found = await report(store)
    assert (found.summary.attempts, found.summary.reason) == (1, "expired")


@pytest.mark.parametrize("text", ["plain", "é 😀", "nul \x00 and \x1b", "lone \udc80 surrogate"])
async def test_any_text_of_a_receiver_can_be_stored(store: Store, seq: int, text: str) -> None:
    made = Attempt(number=1, at=AT, duration=0.0, outcome=Outcome.FAILED, error=text, answer=text)
    await settle(store, Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, attempt=made, reason=text))
    found = await report(store)
    expected = text.replace("\udc80", "?")
    if "\0" in text and "\ufffd" in (found.summary.reason or ""):  # an engine may be unable to store it
        expected = expected.replace("\0", "\ufffd")
    assert found.summary.last_attempt == found.attempts[0]
    assert (found.attempts[0].error, found.attempts[0].answer) == (expected, expected)
    assert found.summary.reason == expected


async def test_settling_waits_for_nothing(engine: Engine, store: Store, seq: int) -> None:
    async with engine.hold(store):
        with trio.testing.assert_no_checkpoints():
            store.settle_nowait(delivered(seq))
            await store.wait_settle_capacity()
        assert await seqs_of(store) == [seq]  # reads go on
    await store.flush()
    assert await seqs_of(store) == []


async def test_lanes_wait_while_too_many_settlements_are_queued(
    engine: Engine, store: Store, seq: int
) -> None:
    async with trio.open_nursery() as nursery, engine.hold(store):
        for number in range(10_000):
            store.settle_nowait(failed(seq, number=1 + number % 3))
        await store.wait_settle_capacity()
        store.settle_nowait(delivered(seq))
        nursery.start_soon(store.wait_settle_capacity)
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
    await store.flush()
    with trio.testing.assert_no_checkpoints():
        await store.wait_settle_capacity()


async def test_a_settlement_is_on_disk_when_the_wait_for_it_ends(
    engine: Engine, store: Store, seq: int
) -> None:
    async with trio.open_nursery() as nursery, engine.hold(store):
        number = store.settle_nowait(delivered(seq))
        nursery.start_soon(store.wait_settled, number)
        nursery.start_soon(store.wait_settled)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2
    assert await seqs_of(store) == []
    with trio.testing.assert_no_checkpoints():
        await store.wait_settled(number)
        await store.wait_settled()
        await store.wait_settled(0)
    later = store.settle_nowait(delivered(seq))
    assert later > number
    await store.wait_settled(later)


# Waiting deliveries that become due


async def test_the_waiting_deliveries_of_a_registration_become_due(store: Store) -> None:
    await store.append([*to("e1", "e2", lane="reg_1:0:1"), *to("e3", lane="reg_1:0:2")])
    await store.append(to("other", registration="reg_2"))
    first, second = await seqs_of(store, "reg_1:0:1")
    [third], [other] = await seqs_of(store, "reg_1:0:2"), await seqs_of(store, "reg_2:0")
    await settle(store, *(failed(seq, next_at=AT + seq) for seq in (first, third, other)))
    await store.make_due("reg_1")
    assert [d.next_at for d in await pending(store, "reg_1:0:1")] == [0.0, 0.0]
    assert [d.next_at for d in await pending(store, "reg_1:0:2")] == [0.0]
    assert [d.next_at for d in await pending(store, "reg_2:0")] == [AT + other]
    [head, _] = await pending(store, "reg_1:0:1")
    assert (head.attempts, head.failures, head.body) == (1, 1, b"body")
    assert head.seq == first != second


async def test_a_waiting_delivery_that_is_no_longer_a_head_becomes_due_too(store: Store) -> None:
    await store.append([*to("e1", lane="reg_1:0:1"), *to("e2", lane="reg_1:0:2")])
    [second] = await seqs_of(store, "reg_1:0:2")
    await settle(store, failed(second))
    while await store.repartition_step(LaneRule("reg_1", 1, RULE.ordering, 1)):
        pass
    await store.make_due("reg_1")
    assert [d.next_at for d in await pending(store, "reg_1:1")] == [0.0, 0.0]


async def test_finished_deliveries_and_unknown_registrations_are_left_alone(store: Store, seq: int) -> None:
    await settle(store, failed(seq), dead(seq, number=2))
    before = await report(store)
    await store.make_due("reg_1")
    await store.make_due("nobody")
    assert await report(store) == before
