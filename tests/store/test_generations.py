"""Cursors count in the history that they are of, and in those that go on with it."""

from tests.public.store import Generations

FIRST, SECOND, THIRD = "a" * 12, "b" * 12, "c" * 12


def test_a_generation_has_its_own_transactions() -> None:
    one = Generations.parse(FIRST)
    assert one.has(FIRST, 2**63)
    assert not one.has(SECOND, 0)


def test_after_a_promotion_only_what_the_server_had_counts() -> None:
    one = Generations.parse(FIRST).followed_by(SECOND, 7)
    assert one.has(SECOND, 9)
    assert one.has(FIRST, 7)
    assert not one.has(FIRST, 8)
    assert Generations.parse(str(one)) == one


def test_a_later_restore_to_an_earlier_time_counts_for_all_of_before() -> None:
    one = Generations.parse(FIRST).followed_by(SECOND, 7).followed_by(THIRD, 5)
    assert one.former == {FIRST: 5, SECOND: 5}
    two = Generations.parse(FIRST).followed_by(SECOND, 5).followed_by(THIRD, 7)
    assert two.former == {FIRST: 5, SECOND: 7}


def test_former_generations_are_forgotten_at_last() -> None:
    one = Generations.parse(FIRST)
    for number in range(100):
        one = one.followed_by(f"{number:012}", number)
    assert not one.has(FIRST, 0)
    assert one.has(f"{98:012}", 0)
    assert len(one.former) == 20
