from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hookgw.fair import Turns

holders = st.sampled_from("abcd")


class TurnsMachine(RuleBasedStateMachine):
    """Turns, beside what must be true of them."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns[str, int]()
        self.lines: defaultdict[str, list[int]] = defaultdict(list)
        self.added = 0
        # How often another holder was served since this one waits.
        self.passed: dict[str, Counter[str]] = {}

    @rule(holder=holders)
    def add(self, holder: str) -> None:
        self.turns.add(holder, self.added)
        if not self.lines[holder]:
            self.passed[holder] = Counter()
        self.lines[holder].append(self.added)
        self.added += 1

    @precondition(lambda self: len(self.turns) > 0)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(list(self.turns)))
        [holder] = (name for name, line in self.lines.items() if item in line)
        assert not self.turns.remove(next(name for name in "abcd" if name != holder), item)
        assert self.turns.remove(holder, item)
        assert not self.turns.remove(holder, item)
        self.lines[holder].remove(item)

    @rule(holder=holders)
    def skip(self, holder: str) -> None:
        self.turns.skip(holder)
        self.passed[holder] = Counter()

    @rule(holder=holders)
    def pop_of_one(self, holder: str) -> None:
        if self.lines[holder]:
            self.served(holder, self.turns.pop(holder))
        else:
            with pytest.raises(KeyError):
                self.turns.pop(holder)

    @precondition(lambda self: len(self.turns) > 0)
    @rule()
    def pop_next(self) -> None:
        holder, item = self.turns.first()
        assert item == self.lines[holder][0]
        # Nobody is served a second time before this one, unless it was passed over or served out of turn.
        self.served(holder, self.turns.pop())
        for name, line in self.lines.items():
            if line and name != holder:
                self.passed[name][holder] += 1
                assert self.passed[name][holder] <= 1

    def served(self, holder: str, item: int) -> None:
        assert item == self.lines[holder].pop(0)
        self.passed[holder] = Counter()

    @invariant()
    def every_item_is_there_once(self) -> None:
        assert sorted(self.turns) == sorted(item for line in self.lines.values() for item in line)
        assert len(self.turns) == len(list(self.turns))
        assert {name: self.turns.first_of(name) for name in "abcd"} == {
            name: self.lines[name][0] if self.lines[name] else None for name in "abcd"
        }
        if not len(self.turns):
            assert self.turns.holders == 0  # nor is anybody's turn kept
            with pytest.raises(LookupError):
                self.turns.first()


TestTurns = TurnsMachine.TestCase


@given(st.lists(holders))
def test_a_holder_waits_for_one_item_of_each_other_holder_however_many_they_have(arrivals: list[str]) -> None:
    turns = Turns[str, int]()
    for number, holder in enumerate(arrivals):
        turns.add(holder, number)
    served = []
    while turns.holders:
        served.append(turns.first()[0])
        turns.pop(served[-1])
    # Round by round, in the order of arrival.
    counts = Counter(arrivals)
    expected = []
    for done in range(max(counts.values(), default=0)):
        expected += [holder for holder in dict.fromkeys(arrivals) if counts[holder] > done]
    assert served == expected


def test_who_leaves_keeps_the_turn_until_it_comes() -> None:
    turns = Turns[str, str]()
    turns.add("a", "a1")
    turns.add("b", "b1")
    turns.add("b", "b2")
    assert turns.remove("a", "a1")
    turns.add("a", "a2")
    assert turns.first() == ("a", "a2")
    assert turns.remove("a", "a2")
    assert turns.first() == ("b", "b1")  # the turn of a has passed
    assert turns.holders == 1
    turns.add("a", "a3")
    assert [turns.pop("b"), turns.first()] == ["b1", ("a", "a3")]


def test_a_holder_with_one_item_at_a_time_gets_as_much_as_one_with_many() -> None:
    turns = Turns[str, int]()
    for number in range(4):
        turns.add("many", number)
    turns.add("one", 10)
    served = [turns.pop(), turns.pop()]
    turns.add("one", 11)
    served += [turns.pop(), turns.pop()]
    turns.add("one", 12)
    served += [turns.pop(), turns.pop()]
    assert served == [0, 10, 1, 11, 2, 12]


def test_who_is_passed_over_comes_after_all_others() -> None:
    turns = Turns[str, str]()
    for item in ("a1", "b1", "c1"):
        turns.add(item[0], item)
    turns.skip("a")
    turns.skip("nobody")
    assert [turns.pop(holder) for holder in "bca"] == ["b1", "c1", "a1"]
