from typing import Any

import pytest

from hookgw import Invalid
from tests.public.site import Form, option_fields, read_options

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["server"],
    "properties": {
        "server": {"type": "string", "description": "Where it is."},
        "token": {"type": "string", "writeOnly": True},
        "rate": {"type": ["number", "null"], "default": 2},
        "active": {"type": "boolean", "default": True},
        "mode": {"enum": ["fast", 2]},
        "rooms": {"type": "array"},
    },
}


def test_the_schema_gives_the_fields() -> None:
    fields = option_fields(SCHEMA, {"token": "********", "rooms": [1]})
    assert [(f.name, f.kind, f.value, f.is_required) for f in fields] == [
        ("server", "text", "", True),
        ("token", "password", "********", False),
        ("rate", "number", "", False),
        ("active", "checkbox", "true", False),
        ("mode", "select", "", False),
        ("rooms", "json", "[1]", False),
    ]
    assert (fields[0].help, fields[2].default, fields[4].choices) == ("Where it is.", "2", ["fast", "2"])


def test_what_was_entered_is_shown_again() -> None:
    fields = option_fields(SCHEMA, {"server": "stored"}, Form([("option.server", "entered")]))
    assert fields[0].value == "entered"
    assert fields[3].value == "false"


def test_a_new_instance_gets_what_differs_from_the_defaults() -> None:
    form = Form(
        [
            ("option.server", " s "),
            ("option.token", ""),
            ("option.rate", "1.5"),
            ("option.active", "true"),
            ("option.mode", "2"),
            ("option.rooms", '["a"]'),
            ("option.unknown", "1"),
        ]
    )
    assert read_options(form, SCHEMA, for_change=False) == {
        "server": "s",
        "rate": 1.5,
        "mode": 2,
        "rooms": ["a"],
    }
    assert read_options(Form([]), SCHEMA, for_change=False) == {"active": False}
    assert read_options(form, None, for_change=False) == {}


def test_a_change_removes_what_is_empty() -> None:
    form = Form([("option.server", "s"), ("option.active", "true")])
    assert read_options(form, SCHEMA, for_change=True) == {
        "server": "s",
        "token": None,
        "rate": None,
        "active": True,
        "mode": None,
        "rooms": None,
    }


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        read_options(Form([("option.rate", "x"), ("option.rooms", "[")]), SCHEMA, for_change=False)
    assert list(refused.value.messages) == ["rate must be a number, not 'x'.", "rooms must be JSON, not '['."]
    with pytest.raises(Invalid, match="rooms must be JSON"):
        read_options(Form([("option.rooms", "[" * 50_000)]), SCHEMA, for_change=False)


def test_a_list_of_texts_has_one_on_each_line() -> None:
    chats = {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]}
    schema = {"properties": {"chats": chats, "key": {"type": "string"}}, "required": ["key"]}
    required, field = option_fields(schema, {"chats": ["1@g.us", "2@g.us"]})
    assert required.name == "key"  # what must be entered comes first
    assert (field.kind, field.value, field.default) == ("lines", "1@g.us\n2@g.us", "a\nb")
    form = Form([("option.chats", "1@g.us\r\n\r\n 3@g.us ")])
    assert read_options(form, schema, for_change=False) == {"chats": ["1@g.us", "3@g.us"]}
