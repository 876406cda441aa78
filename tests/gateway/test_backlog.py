"""What is pending, counted along, and the limits at their edges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.config.settings import LimitsSettings
from hookgw.gateway.backlog import Backlog, BacklogFull, Need, Tally, need_of
from hookgw.models.errors import TooLarge
from hookgw.models.events import Event
from hookgw.models.units import Size
from hookgw.store import Append

NO_LIMITS: dict[str, Any] = {
    "deliveries": 0,
    "bytes": Size(0),
    "registration_deliveries": 0,
    "registration_bytes": Size(0),
}


def backlog(threshold: int = 0, **limits: int) -> tuple[Backlog, list[tuple[str, bool, int]]]:
    """A backlog with these limits alone, and what it tells of."""
    told: list[tuple[str, bool, int]] = []

    def crossed(registration: str, tally: Tally) -> None:
        told.append((registration, tally.is_high, tally.count))

    return Backlog(LimitsSettings(**{**NO_LIMITS, **limits}), threshold, crossed), told


def append(data: bytes, *registrations: str) -> Append:
    event = Event(id="e", kind="CALL", instance="shop", data_json=data, time=0.0)
    return Append(event, tuple((registration, "lane") for registration in registrations))


def test_what_appending_takes() -> None:
    appends = [append(b"{}", "a", "b"), append(b"[1]", "a"), append(b"{}")]
    assert need_of(appends) == {"a": (2, 5), "b": (1, 2)}


@pytest.mark.parametrize(
    ("limit", "registration"),
    [
        ("deliveries", None),
        ("bytes", None),
        ("registration_deliveries", "a"),
        ("registration_bytes", "a"),
    ],
)
def test_a_limit_can_be_reached_and_not_passed(limit: str, registration: str | None) -> None:
    pending, _ = backlog(**{limit: 10})
    pending.add({"a": (8, 8)})
    pending.check({"a": (2, 2)})
    with pytest.raises(BacklogFull, match=f"limits.{limit}: 10") as caught:
        pending.check({"a": (3, 3)})
    assert (caught.value.registration, caught.value.over, caught.value.largest) == (registration, 1, 10)
    assert caught.value.is_of_bytes == ("bytes" in limit)
    assert caught.value.retry_after > 0
    assert ("registration a" in str(caught.value)) == (registration is not None)


def test_a_limit_in_all_counts_all_registrations() -> None:
    pending, _ = backlog(deliveries=10, registration_deliveries=6)
    pending.add({"a": (5, 0), "b": (5, 0)})
    with pytest.raises(BacklogFull, match=r"^The backlog is full \(limits\.deliveries"):
        pending.check({"c": (1, 1)})


def test_a_limit_of_one_registration_is_not_anothers() -> None:
    pending, _ = backlog(registration_deliveries=5)
    pending.add({"a": (5, 0)})
    pending.check({"b": (5, 0)})
    with pytest.raises(BacklogFull):
        pending.check({"b": (1, 0), "a": (1, 0)})


@pytest.mark.parametrize("limit", list(NO_LIMITS))
def test_what_alone_is_over_a_limit_will_never_pass(limit: str) -> None:
    pending, _ = backlog(**{limit: 10})
    pending.check({"a": (10, 10)})
    with pytest.raises(TooLarge, match=f"limits.{limit} "):
        pending.check({"a": (11, 11)})


def test_without_limits_everything_passes() -> None:
    pending, _ = backlog()
    pending.add({"a": (10**9, 10**15)})
    pending.check({"a": (10**9, 10**15)})


def test_the_largest() -> None:
    pending, _ = backlog()
    assert pending.largest(by_bytes=False) is None
    pending.add({"many": (10, 10), "heavy": (1, 1000)})
    assert pending.largest(by_bytes=False) == "many"
    assert pending.largest(by_bytes=True) == "heavy"


def test_high_and_normal_are_told_of_once_each_with_room_between_them() -> None:
    pending, told = backlog(threshold=10)
    pending.changed({"a": (10, 10)})
    assert told == []
    pending.changed({"a": (1, 1)})
    pending.changed({"a": (5, 5)})
    assert told == [("a", True, 11)]
    pending.changed({"a": (-7, -7)})
    assert len(told) == 1
    pending.changed({"a": (-1, -1)})
    assert told[1:] == [("a", False, 8)]
    pending.changed({"a": (3, 3)})
    assert told[2:] == [("a", True, 11)]
    pending.changed({"a": (-11, -11)})
    assert told[3:] == [("a", False, 0)]


def test_what_was_not_kept_is_not_told_of() -> None:
    pending, told = backlog(threshold=10)
    pending.add({"a": (11, 11)})
    pending.take({"a": (11, 11)})
    pending.watch({"a": (11, 11)})
    assert told == []
    assert (pending.of("a"), pending.count, pending.size) == ((0, 0), 0, 0)


def test_a_threshold_of_0_is_none() -> None:
    pending, told = backlog(threshold=0)
    pending.changed({"a": (10**9, 0)})
    pending.changed({"a": (-(10**9), 0)})
    assert told == []


NEEDS = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(1, 5), st.integers(0, 9)))


@given(steps=st.lists(st.tuples(st.sampled_from(["keep", "refuse", "settle"]), NEEDS), max_size=40))
def test_the_figures_are_what_counting_anew_gives(steps: list[tuple[str, Need]]) -> None:
    pending, told = backlog(threshold=8)
    truth: dict[str, tuple[int, int]] = {}
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
    for name in "abc":
        assert pending.of(name) == truth.get(name, (0, 0))
    assert pending.count == sum(count for count, _ in truth.values())
    assert pending.size == sum(size for _, size in truth.values())
    high = {name for name, is_high in {name: is_high for name, is_high, _ in told}.items() if is_high}
    assert {name for name in "abc" if pending.of(name)[0] > 8} <= high
    assert not {name for name in "abc" if pending.of(name)[0] <= 6} & high
