"""What a key may do, and which keys can do no more: each combination of a small world."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import msgspec
import pytest

from tests.public.records import EVERYTHING, Principal, Reach, Right, Rights


class Instance(msgspec.Struct, frozen=True):
    id: str
    tags: Mapping[str, str]


TAGS = [(), (("plan", "gold"),), (("tenant", "acme"),), (("plan", "gold"), ("tenant", "acme"))]
INSTANCES = {f"shop{n}": Instance(f"id{n}", dict(tags)) for n, tags in enumerate(TAGS)}
REACHES = [
    Reach(None if ids is None else frozenset(ids), tags)
    for ids, tags in product([None, (), ("id0",), ("id0", "id3")], TAGS)
]
RIGHTS = [
    Rights.of(words)
    for words in (
        *([], ["read"], ["receive"], ["receive:crm"], ["receive:n8n"], ["read", "receive:crm"]),
        *(["operate", "receive"], ["operate", "read"], list(Right)),
    )
]
PRINCIPALS = [
    Principal(instance, reach, rights)
    for instance, reach, rights in product([None, "shop0"], REACHES, RIGHTS)
]


def _allowed(rights: Rights) -> frozenset[tuple[Right, str]]:
    pairs = product(Right, ("crm", "n8n"))
    return frozenset((right, label) for right, label in pairs if rights.has(right, label))


def _reached(principal: Principal) -> frozenset[str]:
    return frozenset(name for name, one in INSTANCES.items() if principal.reaches(name, one))


def test_a_key_that_covers_another_one_can_do_all_that_it_can() -> None:
    known = [(one, _reached(one), _allowed(one.rights)) for one in PRINCIPALS]
    for (one, reached, allowed), (other, reached_by_other, allowed_to_other) in product(known, known):
        if one.covers(other):
            assert reached_by_other <= reached, (one, other)
            assert allowed_to_other <= allowed, (one, other)
            assert one.is_global or not other.is_global, (one, other)
        else:
            assert one != other
    assert all(Principal().covers(one) for one in PRINCIPALS)


def test_rights_cover_what_they_allow_and_nothing_else() -> None:
    for one, other in product(RIGHTS, RIGHTS):
        assert one.covers(other) is (_allowed(other) <= _allowed(one)), (one, other)


def test_a_reach_within_another_one_is_what_both_have() -> None:
    for one, other in product(REACHES, REACHES):
        both = one.within(other)
        assert one.covers(both)
        assert other.covers(both)
        for instance in INSTANCES.values():
            assert both.includes(instance) is (one.includes(instance) and other.includes(instance))
        assert both.covers(one) is other.covers(one)
    assert [reach for reach in REACHES if reach.is_everything] == [EVERYTHING]


@pytest.mark.parametrize(
    ("words", "rights"),
    [
        (["receive:crm"], Rights(frozenset({Right.RECEIVE}), "crm")),
        # Of several labels, the key has one, and it never has more than was asked for.
        (["receive:n8n", "receive:crm"], Rights(frozenset({Right.RECEIVE}), "crm")),
        (["receive", "receive:crm"], Rights(frozenset({Right.RECEIVE}))),
        (["receive:crm", "read"], Rights(frozenset({Right.RECEIVE, Right.READ}), "crm")),
        # As a later version may have written them.
        (["fly", "fly:crm", "read:crm"], Rights(frozenset())),
    ],
)
def test_rights_are_read_as_they_are_written(words: list[str], rights: Rights) -> None:
    assert Rights.of(words) == rights
    assert Rights.of(rights.words) == rights
    labels = {"crm", "n8n"} if rights.label is None else {rights.label}
    allowed = {(right, label) for right in rights.names for label in ("crm", "n8n")}
    assert _allowed(rights) == {pair for pair in allowed if pair[0] != "receive" or pair[1] in labels}
    assert rights.has(Right.RECEIVE) is (Right.RECEIVE in rights.names)


@pytest.mark.parametrize(
    ("reach", "names"),
    [
        (EVERYTHING, {"shop0", "shop1", "shop2", "shop3"}),
        (Reach(tags=(("tenant", "acme"),)), {"shop2", "shop3"}),
        (Reach(tags=(("plan", "gold"), ("tenant", "acme"))), {"shop3"}),
        (Reach(tags=(("tenant", "other"),)), set()),
        (Reach(frozenset({"id0", "id3"})), {"shop0", "shop3"}),
        (Reach(frozenset({"id0", "id3"}), (("tenant", "acme"),)), {"shop3"}),
        (Reach(frozenset()), set()),
    ],
)
def test_a_reach_includes_what_meets_both_conditions(reach: Reach, names: set[str]) -> None:
    assert {name for name, one in INSTANCES.items() if reach.includes(one)} == names
    assert _reached(Principal(None, reach)) == names
    assert _reached(Principal("shop3", reach)) == names & {"shop3"}


def test_only_an_operator_of_everything_is_one() -> None:
    assert Principal().is_operator
    for one in PRINCIPALS:
        is_operator = one.instance is None and one.reach == EVERYTHING and Right.OPERATE in one.rights.names
        assert one.is_operator is is_operator
        assert one.instance is None or Right.OPERATE not in one.rights.names


@pytest.mark.parametrize("reach", REACHES)
def test_a_key_of_an_instance_that_is_gone_reaches_its_name_alone(reach: Reach) -> None:
    own = Principal("shop0", reach)
    assert own.reaches("shop0", None) is reach.is_everything
    assert not own.reaches("shop3", None)
    assert Principal(None, reach).reaches("shop3", None) is reach.is_everything
