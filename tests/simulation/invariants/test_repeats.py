import msgspec

from tests.simulation.history import Cancelled, Faulted, Refused, Removed, Requeued, Unanswered
from tests.simulation.invariants import repeats
from tests.simulation.invariants.building import (
    accepted,
    answered,
    arrived,
    changed,
    committed,
    killed,
    rules,
    troubles,
)

HOOK_OF_ALL = "global-every-0"
AGAIN = ["e1 came to shop-default-1 again after it was delivered"]
DELIVERED = (rules(), arrived(1, 1), answered(1, 1, "delivered"))


def test_a_repeat_after_a_2xx_is_found() -> None:
    assert troubles(repeats.check, *DELIVERED, arrived(9, 2)) == AGAIN


def test_a_kill_before_the_next_commit_excuses_it() -> None:
    assert troubles(repeats.check, *DELIVERED, killed(1.002), arrived(9, 2)) == []


def test_a_skip_that_the_disk_refuses_may_repeat_what_it_has_cut_off() -> None:
    """Seed 1023."""
    call = Cancelled(at=1, life=1, instance="shop")
    refused = Refused(at=1.5, life=1, what="skip", why="StorageUnavailable")
    assert troubles(repeats.check, call, *DELIVERED, refused, arrived(9, 2)) == []
    assert troubles(repeats.check, call, *DELIVERED, arrived(9, 2)) == AGAIN
    before = Refused(at=0.5, life=1, what="skip", why="StorageUnavailable")
    assert troubles(repeats.check, call, before, *DELIVERED, arrived(9, 2)) == AGAIN


def test_a_kill_after_the_next_commit_does_not() -> None:
    assert troubles(repeats.check, *DELIVERED, committed(1.005), killed(2), arrived(9, 2)) == AGAIN


def test_a_commit_that_had_begun_before_does_not_count() -> None:
    assert troubles(repeats.check, *DELIVERED, committed(0.999), killed(2), arrived(9, 2)) == []


def test_a_resend_is_no_repeat() -> None:
    resend = Requeued(at=5, life=1, began=5, what="resend", instance="shop", events=("e1",))
    assert troubles(repeats.check, *DELIVERED, resend, arrived(9, 2)) == []


def test_an_event_of_an_instance_that_was_made_again_is_another() -> None:
    """Seed 770059."""
    removed = Removed(at=5, life=1, began=4.5, instance="shop")
    again = Unanswered(at=8.9, life=1, events=("e1",))
    assert troubles(repeats.check, *DELIVERED, removed, again, arrived(9, 2, body=8)) == []
    before = Unanswered(at=4, life=1, events=("e1",))
    assert troubles(repeats.check, *DELIVERED, removed, before, arrived(9, 2)) == AGAIN
    another = Removed(at=5, life=1, began=4.5, instance="cafe")
    assert troubles(repeats.check, *DELIVERED, another, again, arrived(9, 2)) == AGAIN
    # Seed 23566: a webhook of the configuration gets the event of the deleted instance, and then the new one.
    former = arrived(1, 1, registration=HOOK_OF_ALL), answered(1.5, 1, "failed", registration=HOOK_OF_ALL)
    anew = arrived(9, 2, body=8, registration=HOOK_OF_ALL)
    history = (rules(), accepted(0.8, "e1"))
    removed = Removed(at=0.9, life=1, began=0.9, instance="shop")
    assert troubles(repeats.check, *history, removed, *former, again, anew) == []
    assert troubles(repeats.check, *history, removed, *former, anew) != []


def test_a_receiver_that_refused_is_followed_by_another() -> None:
    history = (rules(), arrived(1, 1), changed(2, version=2), answered(3, 1, "gone"), arrived(4, 2))
    assert troubles(repeats.check, *history) == []
    assert troubles(repeats.check, rules(), arrived(1, 1), answered(3, 1, "gone"), arrived(40, 2)) != []


def test_a_late_answer_counts_while_the_gateway_listens() -> None:
    late = (rules(), arrived(1, 1), answered(40, 1, "delivered", is_late=True))
    again = arrived(60, 2, attempt=2)
    assert troubles(repeats.check, *late, again) == ["e1 came to shop-default-1 again after it was delivered"]
    assert troubles(repeats.check, *late, changed(30, "pause"), again) == []
    # Seed 8748: the next attempt looked its host up.
    dialling = msgspec.structs.replace(again, dialled=59.0)
    assert troubles(repeats.check, *late, dialling) == []
    assert troubles(repeats.check, *late, killed(50), again) == []


def test_a_retry_has_the_same_bytes() -> None:
    failed = (rules(alters=True), arrived(1, 1), answered(1, 1, "failed"))
    other = arrived(9, 2, body=8)
    assert troubles(repeats.check, *failed, other) == ["e1 came to shop-default-1 with other bytes"]
    assert troubles(repeats.check, *failed, killed(1.002), other) == []


def test_an_attempt_that_goes_on_on_a_new_connection_fixes_nothing_yet() -> None:
    """Found by seed 227: the attempt was cut off by a stop, while it opened that connection."""
    closed = (rules(alters=True), arrived(1, 1), answered(1, 1, "unanswered"))
    assert troubles(repeats.check, *closed, arrived(9, 2, body=8)) == []
    fresh = (rules(alters=True), arrived(1, 1, dialled=1.0), answered(1, 1, "unanswered"))
    assert troubles(repeats.check, *fresh, arrived(9, 2, body=8)) != []


def test_a_signature_is_checked() -> None:
    found = troubles(repeats.check, rules(), arrived(1, 1, signed=False))
    assert found == ["e1 came to shop-default-1 without a valid signature"]


def test_a_secret_is_not_known_before_the_answer_to_the_change() -> None:
    """Seed 11158: an event was accepted between the change and its answer."""
    for change, is_excused in (
        (changed(2, began=0.5), True),
        (changed(0.8, "maybe", began=0.5), True),
        (changed(0.8, began=0.5), False),
        (changed(3, began=2), False),
    ):
        found = troubles(repeats.check, rules(), change, arrived(1, 1, signed=False))
        assert found == ([] if is_excused else ["e1 came to shop-default-1 without a valid signature"])


def test_one_commit_does_not_write_all_that_the_disk_refused() -> None:
    """Seeds 48699 and 58295: the process ended right after the first commit."""
    full = Faulted(at=0.5, life=1, what="the disk has 0 room")
    end = committed(5), killed(6), arrived(9, 2)
    assert troubles(repeats.check, full, *DELIVERED, *end) == []
    room = Faulted(at=0.9, life=1, what="the disk has all room")
    assert troubles(repeats.check, full, room, *DELIVERED, *end) == AGAIN
    assert troubles(repeats.check, full, *DELIVERED, *map(committed, (3, 3.1, 3.2, 3.3, 3.4)), *end) == AGAIN
