"""A table of fields, of a record that hookgw does not have."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from hookgw import Invalid
from tests.public.kernel import (
    REQUIRED,
    Field,
    Fields,
    Flag,
    Line,
    Parts,
    Period,
    Shown,
    Whole,
    presenter,
    read_fields,
    request_schema,
    response_type,
    text_up_to,
)


class Collar(msgspec.Struct, frozen=True):
    width: int | None = None
    worn_for: float | None = None


class Cat(msgspec.Struct, frozen=True):
    name: str
    is_tame: bool = True
    note: str = ""
    chip: str = ""
    collar: Collar = Collar()


SHORT = Line(text_up_to(9), {"type": "string", "maxLength": 9}, str)
CATS = (
    Field(
        name="name", kind=SHORT, meaning="What it is called.", shows="what it is called.", when_set=REQUIRED
    ),
    Field(
        name="is_tame", kind=Flag(), meaning="Whether it is tame.", shows="whether it is tame.", when_set=True
    ),
    Field(name="note", kind=SHORT, meaning="More.", shows="more."),
    Field(name="chip", kind=SHORT, meaning="Its chip.", is_secret=True),
    Field(
        name="collar",
        kind=Parts(
            "Collar",
            "A collar.",
            (
                Field(
                    name="width", kind=Whole(1, 9), meaning="Its width.", shows="its width.", is_optional=True
                ),
                Field(name="worn_for", kind=Period(1, 60), meaning="Since when.", shows="since when."),
            ),
            Collar,
            is_closed=True,
        ),
        null=Collar(),
        meaning="Its collar.",
        shows="its collar.",
    ),
)
SHOWN = (*CATS, Shown("lives", int, "how many are left.", lambda _, lives: lives))
Response = response_type("Response", SHOWN, "A cat.")


def read(body: dict[str, Any], *, is_set: bool = True) -> dict[str, Any]:
    given = Fields(("", body))
    values = read_fields(CATS, given, is_set=is_set)
    given.finish()
    return {name: value for name, value in values.items() if value is not UNSET}


def shown(cat: Cat) -> Any:
    return msgspec.json.decode(msgspec.json.encode(presenter(Response, SHOWN)(cat, 7)))


def test_a_missing_field_is_as_the_table_says() -> None:
    assert read({"name": "Tom"}) == {"name": "Tom", "is_tame": True}
    assert read({"note": "x"}, is_set=False) == {"note": "x"}
    with pytest.raises(Invalid, match="name is missing"):
        read({"is_tame": False})


def test_both_spellings_are_read_and_null_is_as_the_table_says() -> None:
    tom = {"name": "Tom", "is_tame": False}
    assert read({"name": "Tom", "isTame": False}) == read(tom) == tom
    assert read({"collar": None, "note": None}, is_set=False) == {"collar": Collar()}


def test_parts_are_read_and_shown_as_one_value() -> None:
    collar = read({"name": "Tom", "collar": {"width": 3.0, "wornFor": "5s"}})["collar"]
    assert collar == Collar(3, 5.0)
    assert shown(Cat("Tom", collar=collar))["collar"] == {"width": 3, "wornFor": "5s"}
    assert shown(Cat("Tom"))["collar"] == {"wornFor": None}
    with pytest.raises(Invalid) as caught:
        read({"name": "Tom", "collar": {"width": 10, "widht": 1}})
    assert caught.value.messages == (
        "collar.width must be a whole number from 1 to 9.",
        "collar.widht is not a field of collar. Did you mean width?",
    )


def test_what_is_shown_of_parts_belongs_to_the_response() -> None:
    present = presenter(Response, SHOWN)
    present(Cat("Tom"), 7).collar["width"] = 5
    assert present(Cat("Tim"), 7).collar == {"wornFor": None}


def test_responses_have_no_secret_and_all_that_clients_cannot_write() -> None:
    assert shown(Cat("Tom", chip="1234")) == {
        "name": "Tom",
        "isTame": True,
        "note": "",
        "collar": {"wornFor": None},
        "lives": 7,
    }


def test_the_schema_of_a_request() -> None:
    text = {"type": "string", "maxLength": 9, "description": "What it is called."}
    schema = request_schema(CATS, "A cat.")
    assert (schema["required"], schema["properties"]["name"]) == (["name"], text)
    patch = request_schema(CATS, "Changes.", is_patch=True)
    assert "required" not in patch
    assert patch["properties"]["name"] == text | {"type": ["string", "null"]}


def test_two_spellings_with_one_value_are_one_field() -> None:
    fields = Fields(("", {"events": "a", "kinds": "a", "note": "n", "remark": None}))
    assert fields.read(text_up_to(10), "", "events", "kinds") == "a"
    assert fields.read(text_up_to(10), "", "note", "remark") == "n"
    fields.refuse_unknown("a cat")
    assert fields.finish() == []


def test_two_spellings_with_different_values_get_a_warning() -> None:
    fields = Fields(("hook", {"kinds": "b", "events": "a"}), ("", {"events": "c"}))
    assert fields.read(text_up_to(10), "", "events", "kinds") == "a"
    assert fields.finish() == [
        "hook.events and hook.kinds mean the same, but have different values; hook.kinds was ignored."
    ]


def test_two_spellings_with_different_values_are_a_mistake_where_unknown_fields_are() -> None:
    fields = Fields(("", {"kinds": "b", "events": "a"}))
    assert fields.read(text_up_to(10), "", "events", "kinds") == "a"
    fields.refuse_unknown("a cat")
    with pytest.raises(
        Invalid, match=r"events and kinds mean the same, but have different values\. Send one of them\."
    ):
        fields.finish()
