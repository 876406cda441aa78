from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hookgw.fair import LOOKED_AT, Share, share_of


class Claim:
    def __init__(self, holder: str, amount: int = 1) -> None:
        self.holder, self.amount = holder, amount
        self.is_granted = False

    def granted(self) -> None:
        assert not self.is_granted
        self.is_granted = True


def fill(share: Share[Claim], holder: str) -> int:
    """Take for a holder what it gets, and return how much that was."""
    taken = 0
    while share.fits(holder):
        share.take(holder)
        taken += 1
    return taken


def line_up(share: Share[Claim], *holders: str) -> list[Claim]:
    claims = [Claim(holder) for holder in holders]
    for claim in claims:
        share.line_up(claim)
    return claims


def test_one_holder_gets_three_quarters() -> None:
    assert fill(Share(64, 3), "greedy") == 48


def test_something_is_left_for_a_holder_that_comes_late() -> None:
    share: Share[Claim] = Share(64, 3)
    assert fill(share, "greedy") == 48
    assert fill(share, "late") == 12
    line_up(share, *["greedy"] * 100, *["late"] * 100)
    for _ in range(200):
        share.give(max("greedy", "late", key=share.held))
    assert {share.held("greedy"), share.held("late")} <= {27, 28}  # and 9 stay free
    assert share.fits("later still")


@pytest.mark.parametrize("total", [1, 2, 3])
def test_a_small_total_is_used_completely(total: int) -> None:
    assert fill(Share(total, 3), "one") == total


def test_many_small_holders_leave_the_last_for_one_that_has_nothing() -> None:
    share: Share[Claim] = Share(100, 3)
    for _ in range(4):  # in turn, as they come
        for number in range(60):
            if share.fits(f"busy{number}"):
                share.take(f"busy{number}")
    assert share.used == 99
    assert share.fits("quiet")


def test_holders_take_turns_and_claims_of_a_holder_keep_their_order() -> None:
    share: Share[Claim] = Share(1, 3)
    share.take("first")
    claims = line_up(share, "busy", "busy", "busy", "quiet", "other")
    busy1, busy2, busy3, quiet, other = claims
    expected = [busy1, quiet, other, busy2, busy3]
    holder = "first"
    for claim in expected:
        share.give(holder)
        assert [c for c in claims if c.is_granted] == [claim]
        claim.is_granted = False
        holder = claim.holder
    share.give(holder)
    assert (share.used, share.waiting) == (0, 0)


def test_a_holder_that_has_enough_is_passed_over() -> None:
    share: Share[Claim] = Share(8, 3)
    assert fill(share, "busy") == 6
    [more, quiet] = line_up(share, "busy", "quiet")
    share.serve()
    assert (more.is_granted, quiet.is_granted) == (False, True)
    share.take("other")
    share.give("busy")
    assert not more.is_granted  # it has five, and one is free
    share.give("quiet")
    assert more.is_granted


def test_who_leaves_the_line_keeps_its_holders_turn() -> None:
    share: Share[Claim] = Share(1, 3)
    share.take("first")
    [again, other] = line_up(share, "again", "other")
    assert share.leave(again)
    assert not share.leave(again)
    [back] = line_up(share, "again")
    share.give("first")
    assert (back.is_granted, other.is_granted) == (True, False)


def test_who_leaves_the_line_lets_a_smaller_claim_of_its_holder_pass() -> None:
    share: Share[Claim] = Share(100, 3)
    share.take("other", 50)
    large, small = Claim("shop", 60), Claim("shop", 10)
    share.line_up(large)
    share.line_up(small)
    assert share.leave(large)
    assert small.is_granted


def test_many_holders_that_must_wait_are_not_all_looked_at_unless_others_are_served_between_them() -> None:
    share: Share[Claim] = Share(1000, 3)
    share.take("other", 500)
    for start in (0, 15):
        for number in range(start, start + 15):
            share.line_up(Claim(f"large {number}", 999))
        share.line_up(Claim(f"small {start}"))
    for number in range(LOOKED_AT):
        share.line_up(Claim(f"large {30 + number}", 999))
    last = Claim("last")
    share.line_up(last)
    share.serve()
    assert [share.held("small 0"), share.held("small 15"), last.is_granted] == [1, 1, False]
    share.serve()  # it begins where it stopped
    assert last.is_granted


def test_a_larger_total_serves_the_line() -> None:
    share: Share[Claim] = Share(1, 3)
    share.take("a")
    claims = line_up(share, "b", "c", "d")
    share.total = 3
    share.serve()
    assert [claim.is_granted for claim in claims] == [True, True, False]
    assert share.claims() == claims[2:]


def test_a_part_can_be_reserved_for_the_first_unit_of_each_holder() -> None:
    """Holders that come one after the other, and keep what they get, leave something for those after them."""
    share: Share[Claim] = Share(100, 3, reserved=4)
    taken = [fill(share, f"h{number}") for number in range(25)]
    assert taken[0] == 75  # alone, as without a reserve
    assert taken[1:] == [1] * 24
    assert share.fits("quiet")
    share.take("quiet")
    assert not share.fits("another")
    assert not share.fits("h0")


def test_what_is_reserved_shrinks_with_the_total() -> None:
    share: Share[Claim] = Share(3, 3, reserved=4)
    assert fill(share, "one") == 3


amounts = st.integers(0, 10**13)


@given(amounts, amounts, st.integers(1, 5), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_holder_may_have_so_many_times_what_is_free_then(
    others: int, total: int, ratio: int, spare: int, little: int
) -> None:
    left = max(0, total - others)
    share = share_of(left, ratio, spare, little)

    def may_have(held: int) -> bool:
        free = left - held
        return held <= little or (held <= ratio * free and free >= spare)

    # All of that, and no more.
    assert may_have(share) or share < 0
    assert not may_have(max(share, -1) + 1)


@given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 9))
def test_those_that_take_all_they_can_get_leave_something_for_the_next_one(
    total: int, ratio: int, holders: int
) -> None:
    """Whoever is first, and however often they ask."""
    total += (ratio + 2) ** (holders + 1)
    share: Share[Claim] = Share(total, ratio)
    for number in [*range(holders)] * 3:
        share.take(str(number), max(0, share.room(str(number))))
    assert share.fits("next")


class ShareMachine(RuleBasedStateMachine):
    """A share, beside what must be true of it."""

    @initialize(
        total=st.sampled_from([1, 2, 3, 4, 64, 1000, 10**9]),
        ratio=st.integers(1, 4),
        reserved=st.sampled_from([None, 4]),
        shared=st.booleans(),
    )
    def start(self, total: int, ratio: int, reserved: int | None, shared: bool) -> None:
        self.share: Share[Claim] = Share(total, ratio, reserved)
        self.share.is_shared = shared
        self.holding: list[Claim] = []
        self.waiting: list[Claim] = []

    @rule(holder=st.sampled_from("abcdef"), part=st.integers(1, 1000))
    def ask(self, holder: str, part: int) -> None:
        claim = Claim(holder, max(1, self.share.total * part // 4000))
        before, first = self.share.used, not self.share.held(holder)
        if self.share.fits(holder, claim.amount):
            self.share.take(holder, claim.amount)
            self.holding.append(claim)
            reserved = self.share.total // self.share.reserved if self.share.reserved else 1
            if before and not first and self.share.is_shared and self.share.total > self.share.ratio:
                assert (
                    self.share.total - self.share.used >= reserved or claim.amount <= self.share.total // 256
                )
        else:
            self.share.line_up(claim)
            self.waiting.append(claim)

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        claim = self.holding.pop(data.draw(st.integers(0, len(self.holding) - 1)))
        self.share.give(claim.holder, claim.amount)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        claim = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        assert self.share.leave(claim) is not claim.is_granted
        if claim.is_granted:
            self.share.give(claim.holder, claim.amount)

    @rule(total=st.sampled_from([1, 3, 64, 1000]))
    def resize(self, total: int) -> None:
        self.share.total = total
        self.share.serve()

    @invariant()
    def nothing_leaks(self) -> None:
        self.holding += [claim for claim in self.waiting if claim.is_granted]
        self.waiting = [claim for claim in self.waiting if not claim.is_granted]
        held = Counter[str]()
        for claim in self.holding:
            held[claim.holder] += claim.amount
        assert self.share.used == held.total()
        assert set(self.share) == set(held)
        assert {holder: self.share.held(holder) for holder in held} == held
        assert self.share.waiting == len(self.waiting)

    @invariant()
    def what_fits_is_granted(self) -> None:
        firsts = {claim.holder: claim for claim in reversed(self.waiting)}
        assert not any(self.share.fits(claim.holder, claim.amount) for claim in firsts.values())

    @invariant()
    def what_fits_is_what_there_is_room_for_or_a_single_claim(self) -> None:
        for holder in "abcdefg":
            for amount in (1, 2, 50, self.share.total // 4 + 1, self.share.total, self.share.total + 1):
                is_single = not self.share.used and amount <= self.share.total
                assert self.share.fits(holder, amount) == (amount <= self.share.room(holder) or is_single)

    def teardown(self) -> None:
        while getattr(self, "holding", []):
            claim = self.holding.pop()
            self.share.give(claim.holder, claim.amount)
            self.nothing_leaks()


TestShare = ShareMachine.TestCase
