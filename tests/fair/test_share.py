from __future__ import annotations

import random
from collections import Counter

import pytest

from hookgw.fair import Share


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


def test_a_larger_total_serves_the_line() -> None:
    share: Share[Claim] = Share(1, 3)
    share.take("a")
    claims = line_up(share, "b", "c", "d")
    share.total = 3
    share.serve()
    assert [claim.is_granted for claim in claims] == [True, True, False]
    assert share.claims() == claims[2:]


@pytest.mark.parametrize("seed", range(20))
def test_at_random_nothing_leaks_and_whatever_fits_is_granted(seed: int) -> None:
    chance = random.Random(seed)
    total = chance.choice((1, 4, 64, 1000))
    share: Share[Claim] = Share(total, 3)
    holding: list[Claim] = []
    waiting: list[Claim] = []
    for _ in range(2000):
        match chance.randrange(4):
            case 0 | 1:
                claim = Claim(f"holder {chance.randrange(6)}", chance.randint(1, max(1, total // 4)))
                if share.fits(claim.holder, claim.amount):
                    share.take(claim.holder, claim.amount)
                    holding.append(claim)
                else:
                    share.line_up(claim)
                    waiting.append(claim)
            case 2 if holding:
                given = holding.pop(chance.randrange(len(holding)))
                share.give(given.holder, given.amount)
            case 3 if waiting:
                left = waiting.pop(chance.randrange(len(waiting)))
                assert share.leave(left) is not left.is_granted
                if left.is_granted:
                    share.give(left.holder, left.amount)
        holding += [claim for claim in waiting if claim.is_granted]
        waiting = [claim for claim in waiting if not claim.is_granted]
        held = Counter[str]()
        for claim in holding:
            held[claim.holder] += claim.amount
        assert share.used == sum(held.values()) <= total
        assert {holder: share.held(holder) for holder in held} == held
        assert share.waiting == len(waiting)
        firsts = {claim.holder: claim for claim in reversed(waiting)}
        assert not any(share.fits(claim.holder, claim.amount) for claim in firsts.values())
    while holding:
        given = holding.pop()
        share.give(given.holder, given.amount)
        holding += [claim for claim in waiting if claim.is_granted]
        waiting = [claim for claim in waiting if not claim.is_granted]
    assert (share.used, share.waiting, waiting) == (0, 0, [])


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
