"""What came of deliveries, written down."""

from __future__ import annotations

import pytest

from hookgw.models.deliveries import Attempt, DeliveryState, Outcome, Settlement
from hookgw.store import DeliveryReport, Store
from tests.store.sqlite.support import AT, LANE, attempt, dead, delivered, failed, pending, seqs_of, to


async def report(store: Store, name: str = "e1") -> DeliveryReport:
    found = await store.find_delivery("shop", name)
    assert found is not None
    return found


@pytest.fixture
async def seq(store: Store) -> int:
    await store.append(to("e1"))
    return (await seqs_of(store))[0]


async def test_a_delivered_one_leaves_the_outbox(store: Store, seq: int) -> None:
    await store.settle(delivered(seq))
    assert await seqs_of(store) == []
    found = await report(store)
    assert found.summary.state is DeliveryState.DELIVERED
    assert found.summary.finished_at == AT
    assert found.summary.reason is None
    assert found.attempts == (attempt(),)
    assert found.summary.last_attempt == attempt()


async def test_one_that_failed_stays_with_its_counters_and_body(store: Store, seq: int) -> None:
    await store.settle(failed(seq, next_at=AT + 5.5))
    await store.settle(failed(seq, number=2, body=None, next_at=AT + 20))
    [pending] = (await store.page(LANE, 0, 10)).deliveries
    assert (pending.attempts, pending.failures, pending.next_at) == (2, 2, AT + 20)
    assert pending.body == b"body"
    found = await report(store)
    assert [made.number for made in found.attempts] == [1, 2]
    assert (found.summary.finished_at, found.summary.next_at) == (None, AT + 20)


@pytest.mark.parametrize(
    "last",
    [
        delivered(1, number=2),
        Settlement(seq=1, state=DeliveryState.DROPPED, at=AT, reason="filtered"),
        Settlement(seq=1, state=DeliveryState.DEAD, at=AT, reason="expired"),
    ],
    ids=["delivered", "dropped", "expired"],
)
async def test_a_stored_body_is_sent_again_however_the_delivery_ended(
    store: Store, seq: int, last: Settlement
) -> None:
    await store.settle(failed(seq, body=b"fixed"))
    await store.settle(last)
    assert await store.resend("shop", seq, LANE) == LANE
    assert [delivery.body for delivery in await pending(store)] == [b"fixed"]


async def test_the_reason_is_the_last_error_where_no_other_is_given(store: Store, seq: int) -> None:
    await store.append(to("e2", "e3"))
    await store.settle(dead(seq))
    await store.settle(dead(seq + 1, reason="It was older than max_age."))
    await store.settle(Settlement(seq=seq + 2, state=DeliveryState.DROPPED, at=AT, reason="filtered by x"))
    assert (await report(store, "e1")).summary.reason == "The receiver answered 422."
    assert (await report(store, "e2")).summary.reason == "It was older than max_age."
    dropped = await report(store, "e3")
    assert (dropped.summary.reason, dropped.attempts) == ("filtered by x", ())
    assert dropped.summary.last_attempt is None


async def test_only_what_is_pending_is_settled(store: Store, seq: int) -> None:
    await store.settle(dead(seq))
    await store.settle(delivered(seq, number=2))
    await store.settle(delivered(999))
    found = await report(store)
    assert found.summary.state is DeliveryState.DEAD
    assert [made.number for made in found.attempts] == [1]
    assert store.statistics().pending == 0


async def test_several_settlements_of_one_delivery_in_one_commit(store: Store, seq: int) -> None:
    store.settle_nowait(failed(seq, number=1))
    store.settle_nowait(failed(seq, number=2, body=None))
    store.settle_nowait(delivered(seq, number=3))
    store.settle_nowait(dead(seq, number=4))
    await store.flush()
    found = await report(store)
    assert found.summary.state is DeliveryState.DELIVERED
    assert found.summary.attempts == 3
    assert [made.number for made in found.attempts] == [1, 2, 3]
    assert store.statistics().pending == 0


async def test_the_same_settlement_twice_in_one_commit(store: Store, seq: int) -> None:
    store.settle_nowait(failed(seq))
    store.settle_nowait(failed(seq))
    await store.flush()
    assert len((await report(store)).attempts) == 1


async def test_a_settlement_without_an_attempt_keeps_the_count(store: Store, seq: int) -> None:
    store.settle_nowait(failed(seq))
    store.settle_nowait(Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, failures=1, reason="parked"))
    await store.flush()
    found = await report(store)
    assert (found.summary.attempts, found.summary.failures) == (1, 1)
    assert found.summary.reason == "parked"


@pytest.mark.parametrize("text", ["plain", "é 😀", "nul \x00 and \x1b", "lone \udc80 surrogate"])
async def test_any_text_of_a_receiver_can_be_kept(store: Store, seq: int, text: str) -> None:
    made = Attempt(number=1, at=AT, duration=0.0, outcome=Outcome.FAILED, error=text, answer=text)
    await store.settle(Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, attempt=made, reason=text))
    found = await report(store)
    expected = text.replace("\udc80", "?")
    assert found.summary.last_attempt == found.attempts[0]
    assert (found.attempts[0].error, found.attempts[0].answer) == (expected, expected)
    assert found.summary.reason == expected
