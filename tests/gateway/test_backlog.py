"""What is pending, counted along, and the limits at their edges."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Event, TooLarge
from tests.public.config import LimitsSettings
from tests.public.core import REPLAY_STEP, Backlog, BacklogFull, Need, ShareFull, Tally, need_of
from tests.public.kernel import Size
from tests.public.store import Append

NO_LIMITS: dict[str, Any] = {
    "deliveries": 0,
    "bytes": Size(0),
    "registration_deliveries": 0,
    "registration_bytes": Size(0),
    "instance_reserved_deliveries": 0,
    "instance_reserved_bytes": Size(0),
}
LIMITS = list(NO_LIMITS)[:4]


class Observer:
    """Remembers what it hears of."""

    def __init__(self) -> None:
        self.registrations: list[tuple[str, bool, int]] = []
        self.instances: list[tuple[str, bool, int]] = []
        self.allowed: tuple[float, float] = (0, 0)

    def backlog_crossed(self, registration_id: str, tally: Tally) -> None:
        self.registrations.append((registration_id, tally.is_high, tally.count))

    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None:
        self.instances.append((instance, tally.is_high, tally.count))
        self.allowed = allowed


def backlog(threshold: int = 0, **limits: int) -> tuple[Backlog, Observer]:
    """A backlog with these limits alone, and what it tells of."""
    observer = Observer()
    return Backlog(LimitsSettings(**{**NO_LIMITS, **limits}), threshold, observer), observer


def of(need: dict[str, tuple[int, int]], instance: str = "shop") -> Need:
    """A need of one instance, by registration."""
    return {(registration, instance): amount for registration, amount in need.items()}


def append(data: bytes, *registrations: str, instance: str = "shop") -> Append:
    event = Event(id="e", kind="CALL", instance=instance, data_json=data, time=0.0)
    return Append(event, tuple((registration, "lane") for registration in registrations))


def test_what_appending_takes() -> None:
    appends = [
        append(b"{}", "a", "b"),
        append(b"[1]", "a"),
        append(b"{}"),
        append(b"1", "a", instance="mall"),
    ]
    assert need_of(appends) == {("a", "shop"): (2, 5), ("b", "shop"): (1, 2), ("a", "mall"): (1, 1)}


@pytest.mark.parametrize("unit", ["deliveries", "bytes"])
def test_the_limit_of_a_registration_can_be_reached_and_not_passed(unit: str) -> None:
    pending, _ = backlog(**{f"registration_{unit}": 10})
    pending.add(of({"a": (8, 8)}))
    pending.check(of({"a": (2, 2)}))
    with pytest.raises(
        ShareFull, match=rf"of registration a is full \(limits\.registration_{unit}: 10\)"
    ) as caught:
        pending.check(of({"a": (3, 3)}))
    assert caught.value.shortage == (f"limits.registration_{unit}", 10, unit == "bytes", 1, "shop", "a")
    assert caught.value.status == 429
    assert caught.value.retry_after > 0


@pytest.mark.parametrize("unit", ["deliveries", "bytes"])
def test_a_total_limit_can_be_reached_and_not_passed(unit: str) -> None:
    pending, _ = backlog(**{unit: 10, f"instance_reserved_{unit}": 10})
    pending.add(of({"a": (8, 8)}, "mall"))
    pending.check(of({"a": (2, 2)}))
    with pytest.raises(BacklogFull, match=rf"^The backlog is full \(limits\.{unit}: 10\)") as caught:
        pending.check(of({"a": (3, 3)}))
    assert caught.value.shortage == (f"limits.{unit}", 10, unit == "bytes", 1, "shop", None)
    assert caught.value.status == 503
    assert caught.value.retry_after > 0


def test_a_limit_of_one_registration_is_not_anothers() -> None:
    pending, _ = backlog(registration_deliveries=5)
    pending.add(of({"a": (5, 0)}))
    pending.check(of({"b": (5, 0)}))
    with pytest.raises(ShareFull):
        pending.check(of({"b": (1, 0), "a": (1, 0)}))


def test_events_of_several_instances_to_one_registration_count_together() -> None:
    pending, _ = backlog(registration_deliveries=10)
    pending.check({("a", "shop"): (5, 0), ("a", "mall"): (5, 0)})
    pending.add(of({"a": (1, 0)}))
    with pytest.raises(ShareFull):
        pending.check({("a", "shop"): (5, 0), ("a", "mall"): (5, 0)})


@pytest.mark.parametrize("limit", LIMITS)
def test_what_alone_is_over_a_limit_will_never_pass(limit: str) -> None:
    pending, _ = backlog(**{limit: 10, "instance_reserved_deliveries": 10, "instance_reserved_bytes": 10})
    pending.check(of({"a": (10, 10)}))
    with pytest.raises(TooLarge, match=f"limits.{limit} "):
        pending.check(of({"a": (11, 11)}))


def test_what_alone_is_over_the_share_of_an_instance_will_never_pass() -> None:
    pending, _ = backlog(deliveries=100)
    pending.check(of({"a": (80, 0)}))
    with pytest.raises(TooLarge, match=r"exceeds four fifths of limits.deliveries \(100\) on its own"):
        pending.check(of({"a": (81, 0)}))
    pending.check({("a", "shop"): (44, 0), ("b", "mall"): (44, 0)})


def test_without_limits_everything_passes() -> None:
    pending, observer = backlog()
    pending.add(of({"a": (10**9, 10**15)}))
    pending.check(of({"a": (10**9, 10**15)}))
    pending.watch(of({"a": (0, 0)}))
    assert observer.instances == []


# What instances share


def fill(pending: Backlog, instance: str, *, registration: str = "", by: int = 1) -> int:
    """Append until the instance is refused; return how many it has then."""
    need = {(registration or f"of {instance}", instance): (by, by)}
    while True:
        try:
            pending.check(need)
        except ShareFull:
            return pending.of_instance(instance)[0]
        pending.add(need)


@pytest.mark.parametrize("unit", ["deliveries", "bytes"])
@pytest.mark.parametrize("by", [1, 3])
def test_a_lone_instance_may_use_four_fifths(unit: str, by: int) -> None:
    pending, _ = backlog(**{unit: 1000})
    assert fill(pending, "shop", by=by) == 800 // by * by


def test_two_that_take_all_they_can_get_leave_a_ninth() -> None:
    pending, _ = backlog(deliveries=900)
    turns = ["shop", "mall"]
    for number in range(2000):
        need = {("a", turns[number % 2]): (1, 1)}
        try:
            pending.check(need)
        except ShareFull:
            continue
        pending.add(need)
    assert [pending.of_instance(name)[0] for name in turns] == [400, 400]
    assert fill(pending, "third") > 50


def test_an_instance_that_was_first_keeps_what_it_has_and_gets_no_more() -> None:
    pending, _ = backlog(deliveries=1000)
    fill(pending, "shop")
    # What is pending stays, though the threshold has fallen: the others get most of what is left.
    assert fill(pending, "mall") == 160
    assert pending.of_instance("shop")[0] == 800
    assert fill(pending, "third") == 32


def test_what_is_reserved_is_refused_by_the_total_limit_alone() -> None:
    pending, _ = backlog(deliveries=1000, instance_reserved_deliveries=100)
    fill(pending, "shop")
    fill(pending, "mall")
    for number in range(900, 1000):
        pending.check(of({"a": (1000 - pending.count, 0)}, f"late {number}"))
        pending.add(of({"a": (1, 0)}, f"late {number}"))
        if pending.count == 1000:
            break
    with pytest.raises(BacklogFull):
        pending.check(of({"a": (1, 0)}, "quiet"))
    with pytest.raises(ShareFull):
        pending.check(of({"a": (1, 0)}))


def test_the_last_tenth_is_for_those_that_hold_little() -> None:
    pending, _ = backlog(deliveries=1000, instance_reserved_deliveries=10)
    assert [fill(pending, name) for name in ("first", "second", "third", "fourth")] == [800, 100, 10, 10]
    for number in range(8):
        assert fill(pending, f"quiet{number}") == 10
    assert pending.count == 1000


def test_the_bytes_of_an_instance_say_nothing_about_its_deliveries() -> None:
    pending, _ = backlog(deliveries=1000, bytes=1000, instance_reserved_bytes=100)
    pending.add(of({"a": (500, 900)}))
    pending.check(of({"a": (100, 100)}, "mall"))
    with pytest.raises(ShareFull, match=r"limits\.bytes"):
        pending.check(of({"a": (1, 101)}, "mall"))
    with pytest.raises(ShareFull, match=r"limits\.bytes"):
        pending.check(of({"a": (1, 1)}))


def test_the_limit_of_a_global_webhook_is_shared_like_the_total() -> None:
    pending, _ = backlog(registration_deliveries=1000, instance_reserved_deliveries=10)
    assert fill(pending, "shop", registration="global_x") == 800
    assert fill(pending, "mall", registration="global_x") == 100
    assert fill(pending, "mall", registration="global_y") > 100
    with pytest.raises(ShareFull) as caught:
        pending.check({("global_x", "mall"): (1, 0)})
    assert "of instance 'mall' for registration global_x" in str(caught.value)
    assert caught.value.shortage.registration == "global_x"
    with pytest.raises(TooLarge, match=r"four fifths of limits.registration_deliveries"):
        pending.check({("global_x", "third"): (801, 0)})
    # The registration of an instance is its own: it may use all of it.
    assert fill(pending, "own", registration="reg_x") == 1000


def test_a_later_instance_of_the_same_name_begins_with_nothing() -> None:
    pending, observer = backlog(threshold=3, deliveries=100, instance_reserved_deliveries=1)
    pending.add(of({"global_x": (60, 60), "reg_1": (2, 2)}))
    pending.watch([("global_x", "shop"), ("reg_1", "shop")])
    pending.hold("shop", (3, 3))
    # Some commits of after the deletion are counted before the name is changed.
    pending.changed({("global_x", "shop 0b0c"): (-10, -10), ("reg_1", "shop 0b0c"): (-2, -2)})
    pending.retired("shop", "shop 0b0c")
    pending.release("shop", (3, 3))
    assert (pending.of_instance("shop"), pending.of_instance("shop 0b0c")) == ((0, 0), (50, 50))
    assert (pending.count, pending.of("global_x"), pending.of("reg_1")) == (50, (50, 50), (0, 0))
    assert observer.registrations == [("global_x", True, 60)]
    assert observer.instances == [("shop", True, 62), ("shop", False, 5)]
    pending.check(of({"global_x": (40, 40)}))
    pending.changed({("global_x", "shop 0b0c"): (40, 40)})
    assert len(observer.instances) == 2, "nobody can do anything about it"
    pending.changed({("global_x", "shop 0b0c"): (-90, -90)})
    pending.retired("nobody", "nobody 0b0c")
    assert list(pending.instances()) == []
    assert (pending.count, pending.size) == (0, 0)


def test_an_event_that_nobody_wants_always_has_room() -> None:
    pending, _ = backlog(deliveries=10)
    pending.add(of({"a": (10, 10)}))
    pending.check({})


def test_operational_events_count_towards_no_instance() -> None:
    pending, _ = backlog(deliveries=10)
    pending.add(of({"operations": (9, 9)}, "*"))
    assert (pending.of("operations"), pending.count) == ((9, 9), 9)
    assert list(pending.instances()) == []


AMOUNTS = st.integers(0, 400)


@given(
    has=AMOUNTS,
    others=AMOUNTS,
    more=st.integers(1, 400),
    reserved=st.integers(0, 300),
    limit=st.integers(1, 800),
)
def test_the_excess_is_what_must_go_and_no_more(
    has: int, others: int, more: int, reserved: int, limit: int
) -> None:
    def refusal(has: int) -> int:
        pending, _ = backlog(deliveries=limit, instance_reserved_deliveries=reserved)
        pending.add({("a", "shop"): (has, 0), ("a", "others"): (others, 0)})
        try:
            pending.check(of({"a": (more, 0)}))
        except (ShareFull, BacklogFull) as error:
            return error.shortage.excess
        except TooLarge:
            assert more > max(min(reserved, limit), limit * 4 // 5)
            return 0
        free = limit - has - others - more
        assert free >= 0
        assert has + more <= max(reserved, 4 * free)
        assert has + more <= reserved or not reserved or free >= limit // 10
        return 0

    excess = refusal(has)
    if 0 < excess <= has:
        assert refusal(has - excess + 1) == 1
        # The total limit may be the next to refuse, if the instance has little.
        assert refusal(has - excess) == 0 or has - excess + more <= reserved


@given(
    attack=st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["a", "global_g"]), st.integers(1, 300), st.integers(0, 99)
        ),
        max_size=60,
    ),
    quiet=st.integers(1, 10),
)
def test_a_quiet_instance_is_never_refused_whatever_the_others_do(
    attack: list[tuple[int, str, int, int]], quiet: int
) -> None:
    limits = {"deliveries": 1000, "bytes": 2000, "registration_deliveries": 1000, "registration_bytes": 2000}
    reserved = {"instance_reserved_deliveries": 30, "instance_reserved_bytes": 60}
    pending, _ = backlog(**limits, **reserved)
    for attacker, registration, count, size in attack:
        own = f"reg_{attacker}" if registration == "a" else registration
        need = {(own, f"attacker {attacker}".replace(" ", "")): (count, size)}
        try:
            pending.check(need)
        except (ShareFull, BacklogFull, TooLarge):
            pass
        else:
            pending.add(need)
        # Whatever it wants, as long as it holds little.
        pending.check({("global_g", "quiet"): (quiet, quiet)})


# Room for replays


def test_a_replay_may_fill_half_of_each_limit() -> None:
    limits = {"deliveries": 1000, "bytes": 10_000, "registration_deliveries": 600, "registration_bytes": 9000}
    pending, _ = backlog(**limits)
    assert pending.replay_room("shop", ["a"]) == (300, 4500)
    assert pending.replay_room("shop", []) == (500, 5000)
    pending.add(of({"a": (100, 100)}))
    assert pending.replay_room("shop", ["a"]) == (200, 4400)
    pending.add(of({"b": (600, 100)}, "mall"))
    # Half of the 300 that are free, with what it has.
    assert pending.replay_room("shop", ["a"]) == (100, 4400)
    assert pending.replay_room("shop", ["a", "b"]) == (0, 0)
    assert pending.replay_room("third", ["a"]) == (150, 4400)


def test_room_that_is_held_is_no_high_backlog() -> None:
    pending, observer = backlog(deliveries=1000)
    pending.hold("shop", (500, 0))
    change(pending, 300)
    assert observer.instances == []
    with pytest.raises(ShareFull):
        pending.check(of({"a": (1, 0)}))
    change(pending, 101)
    pending.release("shop", (500, 0))
    assert observer.instances == [("shop", True, 401)]


def test_a_step_of_a_replay_is_bounded() -> None:
    pending, _ = backlog()
    assert pending.replay_room("shop", ["a"]) == REPLAY_STEP


def test_one_delivery_may_be_replayed_where_nothing_is_pending() -> None:
    pending, _ = backlog(deliveries=1, bytes=1, registration_deliveries=1, registration_bytes=1)
    assert pending.replay_room("shop", ["a"]) == (1, 1)
    pending.hold("shop", (1, 1))
    assert pending.replay_room("shop", ["a"]) == (0, 0)
    assert pending.replay_room("mall", ["b"]) == (0, 0)
    pending.release("shop", (1, 1))
    assert (pending.count, pending.size, list(pending.instances())) == (0, 0, [])


def test_the_largest_of_an_instance() -> None:
    pending, _ = backlog()
    assert pending.largest("shop", by_bytes=False) is None
    pending.add(of({"many": (10, 10), "heavy": (1, 1000)}))
    pending.add(of({"others": (100, 10000)}, "mall"))
    assert pending.largest("shop", by_bytes=False) == "many"
    assert pending.largest("shop", by_bytes=True) == "heavy"
    # Seed 91639 of the simulator: a replay held room while nothing was pending.
    pending.hold("mill", (10, 0))
    assert pending.largest("mill", by_bytes=False) is None


# High backlogs


def change(pending: Backlog, count: int, size: int | None = None, instance: str = "shop") -> None:
    pending.changed({("a", instance): (count, count if size is None else size)})


def test_high_and_normal_are_told_of_once_each_with_room_between_them() -> None:
    pending, observer = backlog(threshold=10)
    told = observer.registrations
    change(pending, 10)
    assert told == []
    change(pending, 1)
    change(pending, 5)
    assert told == [("a", True, 11)]
    change(pending, -7)
    assert len(told) == 1
    change(pending, -1)
    assert told[1:] == [("a", False, 8)]
    change(pending, 3)
    assert told[2:] == [("a", True, 11)]
    change(pending, -11)
    assert told[3:] == [("a", False, 0)]


@pytest.mark.parametrize("unit", ["deliveries", "bytes"])
def test_an_instance_is_high_above_half_of_what_it_may_hold(unit: str) -> None:
    pending, observer = backlog(**{unit: 1000})
    change(pending, 400)
    assert observer.instances == []
    change(pending, 1)
    change(pending, 100)
    assert observer.instances == [("shop", True, 401)]
    assert observer.allowed[unit == "bytes"] == 800
    change(pending, -180)
    assert len(observer.instances) == 1
    change(pending, -1)
    assert observer.instances[1:] == [("shop", False, 320)]
    change(pending, 500, instance="mall")
    assert observer.instances[2:] == [("mall", True, 500)]
    # The others have less room now.
    change(pending, 1)
    assert observer.instances[3:] == [("shop", True, 321)]
    assert observer.allowed[unit == "bytes"] == 400
    change(pending, -321)
    assert observer.instances[4:] == [("shop", False, 0)]


def test_an_instance_that_has_little_is_never_high() -> None:
    pending, observer = backlog(deliveries=1000, instance_reserved_deliveries=400)
    change(pending, 900, instance="mall")
    change(pending, 200)
    assert observer.instances == [("mall", True, 900)]
    change(pending, 1)
    assert observer.instances[1:] == [("shop", True, 201)]


def test_what_was_not_kept_is_not_told_of() -> None:
    pending, observer = backlog(threshold=10, deliveries=10)
    pending.add(of({"a": (11, 11)}))
    pending.take(of({"a": (11, 11)}))
    pending.watch(of({"a": (11, 11)}))
    assert (observer.registrations, observer.instances) == ([], [])
    assert (pending.of("a"), pending.of_instance("shop"), pending.count, pending.size) == (
        (0, 0),
        (0, 0),
        0,
        0,
    )


def test_a_threshold_of_0_is_none() -> None:
    pending, observer = backlog(threshold=0)
    change(pending, 10**9)
    change(pending, -(10**9))
    assert observer.registrations == []


def tallies(pending: Backlog) -> Mapping[str, Any]:
    """What the backlog keeps of each instance."""
    return pending._instances


def test_instances_that_come_and_go_do_not_add_up() -> None:
    pending, _ = backlog()
    pending.add(of({"a": (1, 1), "b": (1, 1)}, "stays"))
    pending.take(of({"b": (1, 1)}, "stays"))
    for number in range(5000):
        pending.add(of({"a": (1, 1)}, f"shop{number}"))
        pending.take(of({"a": (1, 1)}, f"shop{number}"))
    assert len(tallies(pending)) <= 1000
    assert list(tallies(pending)["stays"].parts) == ["a"]
    assert list(pending.instances()) == [("stays", (1, 1))]


def test_registrations_of_an_instance_that_come_and_go_do_not_add_up() -> None:
    pending, _ = backlog()
    lasting = [f"lasting{number}" for number in range(100)]
    pending.add(of(dict.fromkeys(lasting, (1, 1))))
    pending.add(of({"largest": (2, 2)}))
    most = 0
    for number in range(5000):
        pending.add(of({f"gone{number}": (1, 1)}))
        pending.changed(of({f"gone{number}": (-1, -1)}))
        most = max(most, len(tallies(pending)["shop"].parts))
    assert most <= 2 * 101 + 1  # and it is not swept for each of them
    assert pending.largest("shop", by_bytes=False) == "largest"
    pending.changed(of({"largest": (-2, -2), **dict.fromkeys(lasting, (-1, -1))}))
    for number in range(500):
        pending.add(of({f"gone{number}": (1, 1)}))
        pending.changed(of({f"gone{number}": (-1, -1)}))
    assert len(tallies(pending)["shop"].parts) <= 64


# The counts

HOLDERS = st.tuples(st.sampled_from(["a", "b", "global_c"]), st.sampled_from(["shop", "mall", "*"]))
NEEDS = st.dictionaries(HOLDERS, st.tuples(st.integers(1, 5), st.integers(0, 9)))


@given(steps=st.lists(st.tuples(st.sampled_from(["keep", "refuse", "settle"]), NEEDS), max_size=40))
def test_the_figures_are_what_counting_anew_gives(steps: list[tuple[str, Need]]) -> None:
    pending, observer = backlog(threshold=8)
    truth: dict[tuple[str, str], tuple[int, int]] = {}
    for what, need in steps:
        if what == "settle":
            gone = {name: truth.get(name, (0, 0)) for name in need}
            pending.changed({name: (-count, -size) for name, (count, size) in gone.items()})
            truth.update(dict.fromkeys(need, (0, 0)))
            continue
        pending.add(need)
        if what == "refuse":
            pending.take(need)
            continue
        pending.watch(need)
        for name, (count, size) in need.items():
            has = truth.get(name, (0, 0))
            truth[name] = (has[0] + count, has[1] + size)

    def total(place: int | None = None, name: str = "") -> tuple[int, int]:
        found = [amount for key, amount in truth.items() if place is None or key[place] == name]
        return sum(count for count, _ in found), sum(size for _, size in found)

    names = ["a", "b", "global_c"]
    assert [pending.of(name) for name in names] == [total(0, name) for name in names]
    assert dict(pending.instances()) == {
        name: total(1, name) for name in ("shop", "mall") if total(1, name) != (0, 0)
    }
    assert (pending.count, pending.size) == total()
    high = {name for name, is_high in {name: on for name, on, _ in observer.registrations}.items() if is_high}
    assert {name for name in names if pending.of(name)[0] > 8} <= high
    assert not {name for name in names if pending.of(name)[0] <= 6} & high
