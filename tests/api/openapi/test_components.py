from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from tests.public.web import schemas_of, structs_in


class Mood(StrEnum):
    """How the ``outer`` one feels.

    Attributes:
        HAPPY: all is well.
        VERY_SAD: some of it is
            not.
    """

    HAPPY = "happy"
    VERY_SAD = "very sad"


class Inner(msgspec.Struct, rename="camel"):
    """The inner one, with a ``word``.

    Attributes:
        first_one, other: some of
            them.
    """

    first_one: int
    other: str
    silent: int | msgspec.UnsetType = msgspec.UNSET


class Outer(Inner, kw_only=True):
    """The outer one."""

    inner: dict[str, list[Inner | None]]
    self_again: Outer | None = None
    mood: Mood = Mood.HAPPY


def component(name: str) -> dict[str, Any]:
    found: dict[str, Any] = schemas_of((list[Outer],))[1][name]
    return found


def test_types_become_references() -> None:
    schemas, components = schemas_of((list[Outer], Inner))
    assert schemas == [
        {"type": "array", "items": {"$ref": "#/components/schemas/Outer"}},
        {"$ref": "#/components/schemas/Inner"},
    ]
    assert components.keys() == {"Inner", "Mood", "Outer"}


def test_structs_are_found_however_deep() -> None:
    assert structs_in([list[Outer], int]) == {Inner, Outer}


def test_a_docstring_is_the_description() -> None:
    assert component("Inner")["description"] == "The inner one, with a `word`."


def test_its_attributes_are_the_fields_meanings() -> None:
    fields = component("Inner")["properties"]
    assert fields["firstOne"]["description"] == fields["other"]["description"] == "Some of them."
    assert "description" not in fields["silent"]
    assert component("Inner")["required"] == ["firstOne", "other"]


def test_meanings_are_inherited() -> None:
    assert component("Outer")["properties"]["firstOne"]["description"] == "Some of them."


def test_an_enum_has_the_meanings_of_its_values() -> None:
    assert component("Mood")["description"] == (
        "How the `outer` one feels. `happy`: all is well. `very sad`: some of it is not."
    )
