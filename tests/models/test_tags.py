"""Tags of instances: what they may be, and which instances have them."""

from typing import Any

import msgspec
import pytest

from hookgw import Invalid
from tests.public.records import MOST_TAGS, DeliverySelection, Instance, check_tags, has_tags, parse_tag

SAFE = "Az09._@-"


@pytest.mark.parametrize(
    "tags",
    [{}, {"tenant": "acme", "plan": "gold"}, {SAFE: SAFE}, {"a" * 64: "b" * 64}, {".": "..", "-": "@"}],
)
def test_names_and_values_of_safe_characters(tags: dict[str, str]) -> None:
    assert check_tags(tags) == tags


def test_tags_are_sorted_by_name() -> None:
    assert list(check_tags({"tenant": "acme", "plan": "gold"})) == ["plan", "tenant"]


@pytest.mark.parametrize("part", ["", "a" * 65, "a b", "a=b", "a/b", "ação", "１", "a\n", "a\0", "😀"])
def test_other_names_and_values_are_refused_with_a_sentence(part: str) -> None:
    with pytest.raises(Invalid, match=r"tags: the name .* must be 1 to 64 letters \(A-Z, a-z\), digits"):
        check_tags({part: "x"})
    with pytest.raises(Invalid, match=r"tags\.tenant must be 1 to 64 letters \(A-Z, a-z\), digits"):
        check_tags({"tenant": part})


@pytest.mark.parametrize("value", [None, 1, True, ["acme"], {"a": "b"}])
def test_a_value_is_a_text(value: Any) -> None:
    with pytest.raises(Invalid, match=r"tags\.tenant must be"):
        check_tags({"tenant": value})


@pytest.mark.parametrize("tags", [None, [1], "tenant=acme", 1])
def test_tags_are_an_object(tags: Any) -> None:
    with pytest.raises(Invalid, match="tags must be an object"):
        check_tags(tags)


def test_there_are_at_most_sixteen() -> None:
    most = {f"n{number}": "x" for number in range(MOST_TAGS)}
    assert check_tags(most).keys() == most.keys()
    with pytest.raises(Invalid, match="tags has 17 tags; at most 16 are allowed"):
        check_tags(most | {"more": "x"})


def test_every_mistake_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        check_tags({"a b": "x", "tenant": "", "plan": "gold"})
    assert len(caught.value.messages) == 2


def test_a_tag_as_a_text() -> None:
    assert parse_tag("tenant=acme") == ("tenant", "acme")
    for text in ("", "tenant", "tenant=", "=acme", "a=b=c", "ação=x"):
        with pytest.raises(Invalid, match="tag must be NAME=VALUE, as in tenant=acme"):
            parse_tag(text)


def test_all_wanted_tags_must_match() -> None:
    tags = {"tenant": "acme", "plan": "gold"}
    assert has_tags(tags, [])
    assert has_tags(tags, [("tenant", "acme"), ("plan", "gold")])
    assert not has_tags(tags, [("tenant", "acme"), ("plan", "free")])
    assert not has_tags(tags, [("tenant", "acme"), ("tenant", "other")])
    assert not has_tags({}, [("tenant", "acme")])


def test_a_selection_by_tags_is_stored_with_its_job() -> None:
    selection = DeliverySelection(instances=("loja*",), tags=(("plan", "gold"), ("tenant", "acme")))
    stored = msgspec.json.encode(selection)
    assert msgspec.json.decode(stored, type=DeliverySelection) == selection
    one = Instance(name="loja1", id="1", tags={"tenant": "acme", "plan": "gold"})
    assert selection.has(one)
    assert not selection.has(msgspec.structs.replace(one, name="shop"))
    assert not selection.has(msgspec.structs.replace(one, tags={"tenant": "acme"}))
