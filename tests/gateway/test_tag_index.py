"""The index of instances by their tags."""

from hypothesis import given
from hypothesis import strategies as st

from tests.public.core import TagIndex
from tests.public.records import has_tags

NAMES, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
TAGS = st.dictionaries(NAMES, VALUES)
CHANGES = st.lists(st.tuples(st.sampled_from(["i1", "i2", "i3", "i4"]), TAGS), max_size=30)
WANTED = st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=3)


@given(CHANGES, WANTED)
def test_it_finds_what_a_look_at_every_instance_finds(
    changes: list[tuple[str, dict[str, str]]], wanted: list[tuple[str, str]]
) -> None:
    index, held = TagIndex(), dict[str, dict[str, str]]()
    for instance, tags in changes:
        index.change(instance, held.get(instance, {}), tags)
        held[instance] = tags
    assert index.with_all(wanted) == {name for name, tags in held.items() if has_tags(tags, wanted)}
    assert index.names() == sorted({name for tags in held.values() for name in tags})
    for name in index.names():
        assert index.values(name) == sorted({tags[name] for tags in held.values() if name in tags})


@given(CHANGES)
def test_nothing_remains_of_what_is_gone(changes: list[tuple[str, dict[str, str]]]) -> None:
    index, held = TagIndex(), dict[str, dict[str, str]]()
    for instance, tags in changes:
        index.change(instance, held.get(instance, {}), tags)
        held[instance] = tags
    for instance, tags in held.items():
        index.change(instance, tags, {})
    assert index.names() == []


def test_a_caller_may_change_what_it_gets() -> None:
    index = TagIndex()
    for instance in ("i1", "i2"):
        index.change(instance, {}, {"a": "x"})
    index.with_all([("a", "x")]).clear()
    assert index.with_all([("a", "x")]) == {"i1", "i2"}
