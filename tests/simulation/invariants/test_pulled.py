from typing import Any

from tests.simulation.history import Cancelled, Fetched, LeaseLeft, Requeued, Rules
from tests.simulation.invariants import pulled
from tests.simulation.invariants.building import HOOK, accepted, answered, arrived, killed, troubles


def fetched(at: float, consumer: str, lease: int, **more: Any) -> Fetched:
    given = {"life": 1, "registration": HOOK, "until": at + 60.0, **more}
    return Fetched(at=at, consumer=consumer, lease=lease, **given)


def test_one_consumer_at_a_time() -> None:
    assert troubles(pulled.check, fetched(1.0, "p1", 1), fetched(2.0, "p2", 2)) == [
        f"p2 got a lease of {HOOK} while p1 had one"
    ]
    assert not troubles(pulled.check, fetched(1.0, "p1", 1), fetched(2.0, "p1", 1))
    assert not troubles(pulled.check, fetched(1.0, "p1", 1), fetched(61.0, "p2", 2))
    left = LeaseLeft(at=1.5, life=1, registration=HOOK, lease=1)
    assert not troubles(pulled.check, fetched(1.0, "p1", 1), left, fetched(2.0, "p2", 2))
    assert not troubles(pulled.check, fetched(1.0, "p1", 1), killed(1.5), fetched(2.0, "p2", 2, life=2))
    cancelled = Cancelled(at=0.9, life=1, instance="shop")  # it takes a moment
    assert not troubles(pulled.check, cancelled, fetched(1.0, "p1", 1), fetched(2.0, "p2", 2))


def test_a_full_backlog_takes_the_oldest_from_their_consumer() -> None:
    drops = Rules(at=0.0, life=1, drops=True)
    had = [drops, accepted(0.0, "e1"), fetched(1.0, "p1", 1), arrived(1.0, 1)]
    assert not troubles(pulled.check, *had, fetched(2.0, "p2", 2))
    assert not troubles(pulled.check, *had, fetched(1.2, "p1", 1), fetched(2.0, "p2", 2))
    assert troubles(pulled.check, *had, answered(1.5, 1, "delivered"), fetched(2.0, "p2", 2))


def test_what_is_acknowledged_does_not_come_again() -> None:
    records = [
        accepted(0.0, "e1"),
        fetched(1.0, "p1", 1),
        arrived(1.0, 1),
        answered(2.0, 1, "delivered"),
        killed(2.5),
        arrived(3.0, 2, life=2),
    ]
    assert troubles(pulled.check, *records) == [f"e1 was acknowledged at 2.000000, and {HOOK} got it again"]
    again = Requeued(at=2.2, life=1, began=2.2, what="resend", instance="shop", events=("e1",))
    assert not troubles(pulled.check, *records, again)
    records[3] = answered(2.0, 1, "unknown")
    assert not troubles(pulled.check, *records)
