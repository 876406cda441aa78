"""Limits per tag: tenants share the backlog first, then the instances of each of them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import TooLarge
from hookgw.testing import Receiver, answer, open_kit
from tests.public.config import LimitsSettings, TagLimits
from tests.public.core import Backlog, BacklogFull, Need, ShareFull, Tally
from tests.public.kernel import Size

KIND = "CALL"
REFUSALS = (ShareFull, BacklogFull, TooLarge)


class Observer:
    """Remembers which instances have a high backlog."""

    def __init__(self) -> None:
        self.high: set[str] = set()

    def backlog_crossed(self, registration_id: str, tally: Tally) -> None: ...

    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None:
        (self.high.add if tally.is_high else self.high.discard)(instance)


def backlog(
    tenants: dict[str, str],
    *,
    observer: Observer | None = None,
    total: int = 0,
    reserved: int = 0,
    deliveries: int = 0,
    size: int = 0,
    plan: int = 0,
) -> Backlog:
    """A backlog of instances with these tenants; ``deliveries`` and ``size`` are each tenant's limits."""
    limits = LimitsSettings(
        deliveries=total,
        bytes=Size(0),
        registration_deliveries=0,
        registration_bytes=Size(0),
        instance_reserved_deliveries=reserved,
        instance_reserved_bytes=Size(reserved),
        tags={
            "tenant": TagLimits(deliveries=deliveries, bytes=Size(size)),
            "plan": TagLimits(deliveries=plan),
        },
    )
    found = Backlog(limits, 0, observer or Observer())
    for instance, tenant in tenants.items():
        found.tags_changed(instance, {"tenant": tenant, "other": "x"})
    return found


def of(instance: str, count: int = 1, size: int = 0) -> Need:
    return {(f"reg_{instance}", instance): (count, size)}


def take_all(pending: Backlog, instance: str, size: int = 0) -> int:
    """Let an instance take all that it gets, one after the other; return how many it has then."""
    while True:
        need = of(instance, 1, size)
        try:
            pending.check(need)
        except REFUSALS:
            return pending.of_instance(instance)[0]
        pending.add(need)


@pytest.mark.parametrize("unit", ["deliveries", "bytes"])
def test_a_tenant_has_its_limit_and_no_more(unit: str) -> None:
    limits = (100, 0) if unit == "deliveries" else (0, 100)
    tenants = {"a1": "acme", "a2": "acme", "b1": "bolt"}
    pending = backlog(tenants, reserved=1000, deliveries=limits[0], size=limits[1])
    assert take_all(pending, "a1", 1) == 80  # four fifths: the other instance finds some
    assert take_all(pending, "a2", 1) == 10
    assert pending.of_tag("tenant", "acme") == (90, 90)  # the last tenth: for those that have little
    with pytest.raises(ShareFull, match=rf"limits\.tags\.tenant\.{unit}: 100") as refused:
        pending.check(of("a2", 5, 5))
    assert "tenant=acme" in str(refused.value)
    assert refused.value.status == 429
    assert take_all(pending, "b1", 1) == 100  # the only instance of its tenant


def test_what_alone_is_over_a_limit_of_a_tag_will_never_pass() -> None:
    pending = backlog({"a1": "acme", "a2": "acme", "b1": "bolt"}, deliveries=10)
    with pytest.raises(TooLarge, match=r"four fifths of limits.tags.tenant.deliveries \(10\)"):
        pending.check(of("a1", 9))
    with pytest.raises(TooLarge, match=r"limits.tags.tenant.deliveries \(10\) on its own"):
        pending.check(of("b1", 11))
    with pytest.raises(TooLarge, match=r"limits.tags.tenant.deliveries \(10\) on its own"):
        pending.check({**of("a1", 6), **of("a2", 6)})
    pending.check({**of("a1", 8), **of("b1", 10), **of("none", 1_000_000)})
    with pytest.raises(TooLarge, match=r"limits.tags.tenant.bytes \(10\) on its own"):
        backlog({"a1": "acme", "a2": "acme"}, size=10).check({**of("a1", 1, 6), **of("a2", 1, 6)})


def test_an_instance_without_the_tag_has_no_such_limit() -> None:
    pending = backlog({"a1": "acme"}, deliveries=10)
    pending.check(of("none", 1_000_000))
    pending.tags_changed("none", {"tenants": "acme"})
    pending.check(of("none", 1_000_000))


def test_a_tenant_with_many_instances_has_no_more_of_the_total_than_one_with_one() -> None:
    tenants = {f"a{number}": "acme" for number in range(50)} | {"b1": "bolt"}
    pending = backlog(tenants, total=1000)
    for _ in range(3):
        for instance in tenants:
            take_all(pending, instance)
    acme, bolt = pending.of_tag("tenant", "acme")[0], pending.of_tag("tenant", "bolt")[0]
    assert bolt >= 160  # all of what the first one left, but for a part
    assert acme <= 800
    # Both drain, and come back at the same time: now they are equal.
    both = backlog(tenants, total=1000)
    for _ in range(1000):
        for instance in ("a1", "b1"):
            try:
                both.check(of(instance))
            except REFUSALS:
                continue
            both.add(of(instance))
    held = [both.of_tag("tenant", name)[0] for name in ("acme", "bolt")]
    assert held[1] >= held[0]


def test_what_is_reserved_for_instances_is_reserved_for_a_tenant_once() -> None:
    tenants = {f"a{number}": "acme" for number in range(500)}
    pending = backlog(tenants, total=1000, reserved=100)
    for instance in tenants:
        take_all(pending, instance)
    assert pending.count <= 900  # the last tenth is for others
    assert take_all(pending, "b1") == 100
    assert backlog({}, total=1000, reserved=100).count == 0


def test_a_tag_of_an_instance_moves_what_it_has() -> None:
    pending = backlog({"a1": "acme", "a2": "acme"}, deliveries=100, plan=50)
    pending.add({**of("a1", 30, 3), **of("a2", 20, 2)})
    assert pending.of_tag("tenant", "acme") == (50, 5)
    pending.tags_changed("a1", {"tenant": "bolt", "plan": "gold"})
    assert pending.of_tag("tenant", "acme") == (20, 2)
    assert pending.of_tag("tenant", "bolt") == pending.of_tag("plan", "gold") == (30, 3)
    pending.changed({("reg_a1", "a1"): (-10, -1)})
    assert pending.of_tag("tenant", "bolt") == pending.of_tag("plan", "gold") == (20, 2)
    # Into a tenant that is full: it keeps what it has, and gets no more before that is less.
    pending.add(of("a2", 80))
    pending.tags_changed("a1", {"tenant": "acme"})
    assert pending.of_tag("tenant", "acme") == (120, 2 + 2)
    assert pending.of_tag("tenant", "bolt") == pending.of_tag("plan", "gold") == (0, 0)
    with pytest.raises(ShareFull, match="tenant=acme"):
        pending.check(of("a1"))
    pending.tags_changed("a1", {})
    assert pending.of_tag("tenant", "acme") == (100, 2)
    pending.check(of("a1"))


def test_both_limits_hold_for_an_instance_with_two_tags() -> None:
    pending = backlog({}, deliveries=100, plan=20)
    pending.tags_changed("a1", {"tenant": "acme", "plan": "free"})
    pending.tags_changed("a2", {"tenant": "acme", "plan": "gold"})
    assert take_all(pending, "a1") == 20
    with pytest.raises(ShareFull, match=r"limits\.tags\.plan\.deliveries: 20"):
        pending.check(of("a1"))
    assert take_all(pending, "a2") == 20


def test_a_replay_leaves_room_in_its_tenant() -> None:
    pending = backlog({"a1": "acme", "a2": "acme", "b1": "bolt"}, deliveries=100)
    assert pending.replay_room("a1", ["reg_a1"])[0] == 50
    assert pending.replay_room("none", ["reg_none"])[0] == 1000
    pending.add(of("a2", 80))
    assert pending.replay_room("a1", ["reg_a1"])[0] == 10
    pending.add(of("a2", 20))
    assert pending.replay_room("a1", ["reg_a1"])[0] == 0
    room = pending.replay_room("b1", ["reg_b1"])
    pending.hold("b1", room)
    assert pending.of_tag("tenant", "bolt")[0] == 50
    pending.release("b1", room)
    assert pending.of_tag("tenant", "bolt") == (0, 0)


def test_a_backlog_is_high_above_half_of_what_its_tenant_allows() -> None:
    observer = Observer()
    pending = backlog(
        {"a1": "acme", "a2": "acme"}, observer=observer, deliveries=100, total=1_000_000, reserved=1000
    )
    pending.heard(of("a1", 40))
    assert observer.high == set()
    pending.heard(of("a1", 10))
    assert observer.high == {"a1"}
    pending.heard(of("a1", -45))
    assert observer.high == set()


TENANTS = {"a1": "acme", "a2": "acme", "a3": "acme", "b1": "bolt", "b2": "bolt"}
STEPS = st.lists(
    st.tuples(st.sampled_from([*TENANTS, "none"]), st.integers(1, 200), st.integers(0, 90)), max_size=60
)


@given(steps=STEPS, total=st.sampled_from([0, 300, 1000]), own=st.sampled_from([0, 50, 200]))
def test_no_sum_is_ever_above_its_limit(steps: list[tuple[str, int, int]], total: int, own: int) -> None:
    pending = backlog(TENANTS, total=total, reserved=20, deliveries=own, size=own)
    for instance, count, size in steps:
        need = of(instance, count, size)
        try:
            pending.check(need)
        except REFUSALS:
            pass
        else:
            pending.add(need)
        assert not total or pending.count <= total
        for tenant in ("acme", "bolt"):
            held = pending.of_tag("tenant", tenant)
            assert not own or max(held) <= own
            parts = [pending.of_instance(one) for one, of_one in TENANTS.items() if of_one == tenant]
            assert held == (sum(one for one, _ in parts), sum(one for _, one in parts))


@given(
    attack=st.lists(
        st.tuples(st.sampled_from(["a1", "a2", "a3"]), st.integers(1, 300), st.integers(0, 99)), max_size=60
    ),
    quiet=st.integers(1, 10),
    own=st.sampled_from([0, 400]),
)
def test_a_flood_of_one_tenant_never_refuses_another_one(
    attack: list[tuple[str, int, int]], quiet: int, own: int
) -> None:
    pending = backlog(TENANTS, total=1000, reserved=30, deliveries=own)
    for instance, count, size in attack:
        try:
            pending.check(of(instance, count, size))
        except REFUSALS:
            pass
        else:
            pending.add(of(instance, count, size))
        pending.check(of("b1", quiet, quiet))
        pending.check(of("none", quiet, quiet))


@given(attack=st.lists(st.tuples(st.sampled_from(["a1", "a2"]), st.integers(1, 300)), max_size=60))
def test_a_quiet_instance_of_a_flooded_tenant_finds_room(attack: list[tuple[str, int]]) -> None:
    for total, deliveries in ((0, 500), (1000, 0)):
        pending = backlog(TENANTS, reserved=30, total=total, deliveries=deliveries)
        for instance, count in attack:
            try:
                pending.check(of(instance, count))
            except REFUSALS:
                pass
            else:
                pending.add(of(instance, count))
            pending.check(of("a3", 4))


INSTANCES = st.sampled_from([*TENANTS])
CHANGES = st.dictionaries(st.sampled_from(["tenant", "plan"]), st.sampled_from("xyz"))


@given(steps=st.lists(st.tuples(INSTANCES, st.one_of(st.integers(0, 20), CHANGES)), max_size=60))
def test_the_count_of_a_tag_is_the_sum_of_its_instances(steps: list[tuple[str, Any]]) -> None:
    pending = backlog({}, deliveries=100)
    tags: dict[str, dict[str, str]] = {}
    for instance, what in steps:
        if isinstance(what, dict):
            pending.tags_changed(instance, what)
            tags[instance] = what
        elif what == 13:  # all of it is delivered
            count, size = pending.of_instance(instance)
            pending.changed(of(instance, -count, -size))
        else:
            pending.changed(of(instance, what, 2 * what))
        for tag, value in ((tag, value) for tag in ("tenant", "plan") for value in "xyz"):
            counts = [pending.of_instance(one) for one, has in tags.items() if has.get(tag) == value]
            expected = sum(count for count, _ in counts), sum(size for _, size in counts)
            assert pending.of_tag(tag, value) == expected


def test_values_that_nobody_has_any_more_are_forgotten() -> None:
    pending = backlog({}, deliveries=10)
    for number in range(1000):
        pending.tags_changed("a1", {"tenant": f"t{number}"})
    assert pending.of_tag("tenant", "t998") == (0, 0)
    pending.tags_changed("a1", {})
    pending.check(of("a1", 1_000_000))


# Over a store.


@pytest.mark.usefixtures("hookgw_clock")
async def test_a_restart_and_a_change_of_tags_count_right(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings: dict[str, Any] = {"limits": {"tags": {"tenant": {"deliveries": 10}}}}
    async with open_kit(tmp_path, settings=settings) as kit:
        for name in ("a1", "a2", "b1"):
            await kit.register(hookgw_receiver.url, instance=name)
            await kit.gateway.instances.change_tags(name, {"tenant": {"a": "acme", "b": "bolt"}[name[0]]})
        for name, count in {"a1": 6, "a2": 2, "b1": 2}.items():
            for _ in range(count):
                await kit.emit(KIND, {}, instance=name)
        before = kit.gateway.backlog.of_tag("tenant", "acme")
        assert before[0] == 8
        await kit.emit(KIND, {}, instance="a2")
        with pytest.raises(ShareFull, match=r"limits\.tags\.tenant\.deliveries: 10"):
            await kit.emit(KIND, {}, instance="a1")
        before = kit.gateway.backlog.of_tag("tenant", "acme")
    async with open_kit(tmp_path, settings=settings) as kit:
        assert kit.gateway.backlog.of_tag("tenant", "acme") == before
        await kit.gateway.instances.change_tags("a2", {"tenant": "bolt"})
        assert kit.gateway.backlog.of_tag("tenant", "acme")[0] == before[0] - 3
        assert kit.gateway.backlog.of_tag("tenant", "bolt")[0] == 5
        await kit.gateway.instances.delete("a1")
        assert kit.gateway.backlog.of_tag("tenant", "acme") == (0, 0)


@pytest.mark.usefixtures("hookgw_clock")
async def test_the_oldest_of_the_instance_make_room_if_they_may(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    limits = {"tags": {"tenant": {"deliveries": 5}}, "on_full": "drop_oldest"}
    async with open_kit(tmp_path, settings={"limits": limits}) as kit:
        for name in ("a1", "a2"):
            await kit.register(hookgw_receiver.url, instance=name)
            await kit.gateway.instances.change_tags(name, {"tenant": "acme"})
        for _ in range(8):
            await kit.emit(KIND, {}, instance="a1")
        assert kit.gateway.backlog.of_instance("a1")[0] == 4
        await kit.emit(KIND, {}, instance="a2")
        assert kit.gateway.backlog.of_tag("tenant", "acme")[0] == 5
