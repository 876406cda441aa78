"""Builders and short reads that the tests of every store use."""

from collections.abc import Collection
from typing import Any

import trio

from hookgw import Attempt, Delivery, DeliveryState, Event, Outcome, Registration
from tests.public.kernel import Secret, StorageUnavailable
from tests.public.records import FIRST, Instance, LaneRule, Ordering, Position, RetryOptions, Settlement
from tests.public.store import (
    Append,
    DeliveryQuery,
    DeliveryReport,
    GroupCommit,
    ReplayQuery,
    SilentObserver,
    Store,
)

LANE = "reg_1:0"
RULE = LaneRule("reg_1", 0, Ordering.URL, 1)
AT = 1_700_000_000.25
SHOP = Instance(name="shop", id="0b0c", integration="simulator", options={"rate": 1.5}, connected=True)
HOOK = Registration(
    id="reg_1",
    instance="shop",
    url="https://receiver.test/ü",
    headers={"x-key": "1"},
    secrets=(Secret("whsec_a", 5.0),),
    ordering=Ordering.CHAT,
    generation=3,
    retry=RetryOptions(schedule=(1.0, 2.0)),
    plugins={"message_filters": {"deny": ["*@g.us"]}},
)


def event(event_id: str, *, instance: str = "shop", kind: str = "MESSAGES_UPSERT", data: str = "{}") -> Event:
    return Event(id=event_id, kind=kind, instance=instance, data_json=data.encode(), time=AT)


def to(*ids: str, registration: str = "reg_1", lane: str | None = None, **more: Any) -> list[Append]:
    """Return appends of events with these ids, each to one registration."""
    target = (registration, lane or f"{registration}:0")
    return [Append(event(event_id, **more), (target,)) for event_id in ids]


def attempt(number: int = 1, outcome: Outcome = Outcome.DELIVERED, **more: Any) -> Attempt:
    given: dict[str, Any] = {"at": AT, "duration": 0.5, "status": 200, "answer": "ok"} | more
    return Attempt(number=number, outcome=outcome, **given)


def delivered(seq: int, number: int = 1) -> Settlement:
    return Settlement(seq=seq, state=DeliveryState.DELIVERED, at=AT, attempt=attempt(number))


def failed(
    seq: int, number: int = 1, body: bytes | None = b"body", next_at: float = AT + 5, head: str | None = None
) -> Settlement:
    error = "The receiver answered 500."
    made = attempt(number, Outcome.FAILED, status=500, error=error, request_head=head, response_headers=head)
    return Settlement(
        seq=seq, state=DeliveryState.PENDING, at=AT, attempt=made, failures=number, next_at=next_at, body=body
    )


def dead(seq: int, number: int = 1, reason: str | None = None, at: float = AT) -> Settlement:
    made = attempt(number, Outcome.REJECTED, status=422, error="The receiver answered 422.")
    return Settlement(seq=seq, state=DeliveryState.DEAD, at=at, attempt=made, body=b"body", reason=reason)


def dropped(seq: int, reason: str = "filtered") -> Settlement:
    return Settlement(seq=seq, state=DeliveryState.DROPPED, at=AT, reason=reason)


class Watch(SilentObserver):
    """An observer that remembers."""

    def __init__(self) -> None:
        self.commits = 0
        self.heard: list[str] = []
        self.log_bytes = 0

    def committed(self, seconds: float, rows: int) -> None:
        assert seconds > 0
        self.commits += 1

    def disk_failed(self, error: Exception) -> None:
        self.heard.append(f"failed: {error}")

    def disk_recovered(self) -> None:
        self.heard.append("recovered")

    def log_measured(self, size: int) -> None:
        self.log_bytes = size


class Listener:
    """A listener that remembers its calls, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.deliveries: list[Delivery] = []

    def requeued(self, lanes: Any) -> None:
        self.calls.append(("requeued", dict(lanes)))

    def appended(self, deliveries: Any) -> None:
        self.deliveries += deliveries
        self.calls.append(("appended", [delivery.event.id for delivery in deliveries]))

    def changed(self, change: Any) -> None:
        self.calls.append(("changed", dict(change)))

    def take(self) -> list[tuple[str, Any]]:
        calls, self.calls = self.calls, []
        return calls


async def settle(store: Store, *settlements: Settlement) -> None:
    """Settle, and wait until it is on disk."""
    for settlement in settlements:
        store.settle_nowait(settlement)
    await store.flush()


async def pending(store: Store, lane: str = LANE, after: int = FIRST, limit: int = 100_000) -> list[Delivery]:
    """Return what is pending in a lane, however many pages it takes."""
    found: list[Delivery] = []
    while limit > len(found):
        last = Position(found[-1].position if found else after)
        page = await store.read_lane(lane, last, limit - len(found))
        found += page.deliveries
        if not page.more:
            break
    return found


async def ids_of(store: Store, lane: str = LANE) -> list[str]:
    return [delivery.event.id for delivery in await pending(store, lane)]


async def seqs_of(store: Store, lane: str = LANE) -> list[int]:
    return [delivery.seq for delivery in await pending(store, lane)]


async def park(store: Store, registration: str, reason: str, *, spared: Collection[int] = ()) -> int:
    """Park all that is pending for a registration; return how many deliveries there were."""
    total, more = 0, True
    with trio.CancelScope(shield=True):  # only what follows is a write
        cursor = await store.park_cursor()
    while more:
        step = await store.park_step(registration, reason, cursor, spared=spared)
        total, more = total + step.count, step.more
    return total


async def listed(store: Store, **query: Any) -> list[str]:
    """Return the event ids of a list of deliveries, page after page."""
    found: list[str] = []
    asked = {"instance": "shop"} | query
    while True:
        page = await store.list_deliveries(DeliveryQuery(**asked))
        found += [delivery.event_id for delivery in page.deliveries]
        if page.cursor is None:
            return found
        asked["cursor"] = page.cursor


async def report(store: Store, name: str = "e1", instance: str = "shop") -> DeliveryReport:
    found = await store.find_delivery(instance, name)
    assert found is not None
    return found


async def finish(store: Store, *names: str, **more: Any) -> list[int]:
    """Append events and make their deliveries dead letters; return their numbers."""
    lane = more.get("lane") or f"{more.get('registration', 'reg_1')}:0"
    before = set(await seqs_of(store, lane))
    await store.append(to(*names, **more))
    seqs = [seq for seq in await seqs_of(store, lane) if seq not in before]
    await settle(store, *(dead(seq, reason="off") for seq in seqs))
    return seqs


async def replay(store: Store, query: ReplayQuery | None = None, **rules: LaneRule) -> list[int]:
    """Replay to the end with these rules; return the count of each step."""
    counts: list[int] = []
    cursor: str | None = None
    while True:
        step = await store.replay_step(
            query or ReplayQuery(instance="shop"), rules or {"reg_1": RULE}, cursor
        )
        counts.append(step.count)
        if step.cursor is None:
            return counts
        cursor = step.cursor


async def pending_of(store: Store) -> int:
    return sum(count for count, _ in (await store.pending_counts()).values())


def refusal_of(store: Store) -> StorageUnavailable | None:
    """Why the storage refuses writes, also while it is tried again; ``None`` while it works."""
    commits: GroupCommit[Any] = store.flush.__self__  # type: ignore[attr-defined]  # all writes are its
    try:
        store.check_open()
    except StorageUnavailable as error:
        return error
    return commits.failing
