"""Which instances a caller reaches, and which tags and instances it may make."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, cast

import pytest

from tests.public.core import (
    Registry,
    check_creation,
    check_global,
    check_reach,
    check_right,
    may_create,
    names_within,
    reaches,
    tags_within,
    within,
)
from tests.public.kernel import Forbidden
from tests.public.records import (
    ALL_RIGHTS,
    Instance,
    Principal,
    Reach,
    Right,
    Rights,
    has_tags,
)

ACME, GOLD = ("tenant", "acme"), ("plan", "gold")
TAGS: list[tuple[tuple[str, str], ...]] = [(), (ACME,), (GOLD,), (GOLD, ACME)]
SHOPS = [Instance(name=f"shop{n}", id=f"id{n}", tags=dict(tags)) for n, tags in enumerate(TAGS)]
REACHES = [
    Reach(None if ids is None else frozenset(ids), tags)
    for ids, tags in product([None, (), ("id1",), ("id0", "id3")], TAGS)
]
NAMES: list[str | None] = [None, "shop1", "shop3", "gone"]
PRINCIPALS = [Principal(name, reach) for name, reach in product(NAMES, REACHES)]


class _Registry:
    def find_instance(self, name: str) -> Instance | None:
        return next((one for one in SHOPS if one.name == name), None)

    def instances(self) -> list[Instance]:
        return [*SHOPS]

    def tagged(self, wanted: Iterable[tuple[str, str]]) -> list[Instance]:
        tags = [*wanted]
        return [one for one in SHOPS if has_tags(one.tags, tags)]


REGISTRY = cast("Registry", _Registry())


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_lists_have_exactly_what_is_within_reach(principal: Principal) -> None:
    wanted = [one for one in SHOPS if reaches(REGISTRY, principal, one.name)]
    assert within(REGISTRY, principal) == wanted
    for tags in TAGS:
        names = names_within(REGISTRY, principal, tags)
        tagged = tuple(one.name for one in wanted if has_tags(one.tags, tags))
        assert names == (None if principal.is_global and not tags else tagged)


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_what_is_out_of_reach_is_refused(principal: Principal) -> None:
    for name in ("shop0", "shop1", "shop2", "shop3", "gone"):
        if reaches(REGISTRY, principal, name):
            check_reach(REGISTRY, principal, name)
        else:
            with pytest.raises(Forbidden):
                check_reach(REGISTRY, principal, name)
    if principal.is_global:
        check_global(principal)
    else:
        with pytest.raises(Forbidden):
            check_global(principal)


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_who_may_create_instances_reaches_them(principal: Principal) -> None:
    is_open = principal.instance is None and principal.reach.instances is None
    assert may_create(principal) is is_open
    few = Principal(principal.instance, principal.reach, Rights(ALL_RIGHTS.names - {Right.INSTANCES}))
    assert not may_create(few)
    with pytest.raises(Forbidden):
        check_creation(few)
    if not is_open:
        with pytest.raises(Forbidden):
            check_creation(principal)
        return
    check_creation(principal)
    made = Instance(name="new", id="new", tags=tags_within(principal, {}))
    assert principal.reaches("new", made)


WEAK = Rights.of(["read", "instances", "receive:crm"])


@pytest.mark.parametrize(
    ("rights", "asked", "made"),
    [
        (WEAK, {}, {"tenant": "acme"}),
        (WEAK, {"tenant": "acme"}, {"tenant": "acme"}),
        (WEAK, {"tenant": "other"}, None),
        (WEAK, {"plan": "gold"}, None),
        (ALL_RIGHTS, {"plan": "gold"}, {"plan": "gold", "tenant": "acme"}),
        (ALL_RIGHTS, {"plan": "gold", "tenant": "other"}, None),
    ],
)
def test_a_new_instance_has_the_tags_of_the_reach(
    rights: Rights, asked: Mapping[str, str], made: Any
) -> None:
    principal = Principal(None, Reach(tags=(ACME,)), rights)
    if made is None:
        with pytest.raises(Forbidden):
            tags_within(principal, asked)
    else:
        assert tags_within(principal, asked) == made


@pytest.mark.parametrize(
    ("right", "label", "reason"),
    [
        (Right.READ, None, ""),
        (Right.READ, "n8n", ""),
        (Right.RECEIVE, "crm", ""),
        (Right.RECEIVE, None, ""),
        (Right.RECEIVE, "n8n", "'receive:n8n'"),
        (Right.SEND, None, "'send'"),
        (Right.SEND, "crm", "'send'"),
    ],
)
def test_a_refusal_names_the_right(right: Right, label: str | None, reason: str) -> None:
    if reason:
        with pytest.raises(Forbidden, match=f"right {reason}"):
            check_right(Principal(rights=WEAK), right, label)
    else:
        check_right(Principal(rights=WEAK), right, label)
