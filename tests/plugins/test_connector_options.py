"""The options of a connector's instances: what a schema refuses, what is masked, and what a change does."""

from typing import Any

import pytest

from hookgw import Invalid
from tests.public.kernel import MASK, Sentence
from tests.public.plugins import MAX_OPTIONS, ConnectorOptions

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["homeserver"],
    "properties": {
        "homeserver": {"type": "string", "pattern": "^https?://"},
        "password": {"type": "string", "minLength": 4, "writeOnly": True},
        "access_token": {"type": "string", "writeOnly": True},
        "language": {"enum": ["de", "en"], "default": "en"},
        "mode": {"enum": ["a", "b", "c", 4]},
        "kinds": {"items": {"enum": [f"KIND_{number}" for number in range(21)]}},
        "region": {"pattern": "^[a-z]+$", "description": "The region, such as eu."},
        "rate": {"type": "integer", "maximum": 9, "default": 3},
        "proxy": {"type": "object", "properties": {"url": {"type": "string"}, "key": {"writeOnly": True}}},
        "pages": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        "list": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "additionalProperties": False,
    "anyOf": [{"required": ["password"]}, {"required": ["access_token"]}],
}
RULES = ConnectorOptions("matrix", SCHEMA)
GOOD = {"homeserver": "https://a.example", "password": "hunter2"}


def problems(options: dict[str, Any], rules: ConnectorOptions = RULES) -> tuple[Sentence, ...]:
    with pytest.raises(Invalid) as caught:
        rules.check(options)
    return caught.value.messages


def test_good_options() -> None:
    assert RULES.check(GOOD) == []
    assert ConnectorOptions("any", None).check({"whatever": 1}) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"homeserver": 5}, 'homeserver: the value is not of type "string".'),
        ({"homeserver": "ftp://x"}, 'homeserver: the value does not match "^https?://".'),
        (
            {"region": "9"},
            'region: the value does not match "^[a-z]+$". What belongs there: The region, such as eu.',
        ),
        ({"language": "secret"}, 'language: the value is not one of "de" or "en".'),
        ({"mode": "secret"}, 'mode: the value is not one of "a", "b", "c" or 4.'),
        (
            {"kinds": ["KIND-7"]},
            'kinds[0]: the value is not one of "KIND_0", "KIND_1" or 19 other candidates, such as "KIND_7".',
        ),
        ({"rate": 99}, "rate: the value is greater than the maximum of 9."),
        ({"pages": {"b": 1}}, "pages.b is an unknown field."),
        ({"list": ["a", 5]}, 'list[1]: the value is not of type "string".'),
        ({"pasword": "x"}, "pasword is not an option of the connector matrix. Did you mean password?"),
        ({"x\ny": "x"}, r"x\ny is not an option of the connector matrix."),
    ],
)
def test_a_sentence_names_the_option(change: dict[str, Any], sentence: str) -> None:
    assert problems({**GOOD, **change}) == (sentence,)


def test_of_many_values_one_that_is_similar_is_named_if_any_is() -> None:
    for other in (7, "elephant"):
        (sentence,) = problems({**GOOD, "kinds": [other]})
        assert str(sentence).endswith('"KIND_1" or 19 other candidates.')


def test_missing_options() -> None:
    assert problems({}) == ("Give one of: password; or access_token.", "homeserver is missing.")
    one = ConnectorOptions("m", {"oneOf": [{"required": ["a", "b"]}, {"required": ["c"]}]})
    assert problems({}, one) == ("Give one of: a and b; or c.",)
    assert problems({"a": 1, "b": 1, "c": 1}, one) == ("Give only one of: a and b; or c.",)
    other = ConnectorOptions("m", {"anyOf": [{"required": ["a"], "maxProperties": 1}, {"required": ["c"]}]})
    assert problems({}, other)[0].startswith("The options: the value is not valid under any")


def test_each_problem_has_an_id_that_stays() -> None:
    many = {"homeserver": "ftp://x", "region": "9", "pages": {"b": 1}, "pasword": "x"}
    assert [one.id for one in problems(many)] == [
        "options.one_of",
        "field.refused",
        "options.unknown_field",
        "options.unknown",
        "options.not_of_pattern",
    ]
    one = ConnectorOptions("m", {"oneOf": [{"required": ["a"]}, {"required": ["c"]}]})
    assert [one.id for one in problems({"a": 1, "c": 1}, one)] == ["options.only_one_of"]
    (missing,) = problems({"password": "hunter2"})
    assert (missing.id, missing.values) == ("field.missing", {"where": "homeserver"})


def test_no_problem_repeats_a_value() -> None:
    said = problems(
        {"homeserver": "planted-1", "password": ["planted-2"], "pages": {"a": {"b": "planted-3"}}}
    )
    assert len(said) == 3
    assert "planted" not in str(said)


def test_there_are_not_endless_sentences() -> None:
    assert len(problems({**GOOD, **{f"x{number}": 1 for number in range(500)}})) == 101


def test_options_have_a_limit() -> None:
    assert "may have 65,536 bytes" in problems({"x": "y" * MAX_OPTIONS}, ConnectorOptions("any", None))[0]


def test_an_option_that_the_schema_neither_describes_nor_refuses_is_a_warning() -> None:
    lax = ConnectorOptions("matrix", {"properties": {"rate": {}}})
    assert lax.check({"rate": 1, "rte": 2}) == [
        "rte is not an option of the connector matrix. Did you mean rate?"
    ]
    welcome = ConnectorOptions("matrix", {"properties": {"rate": {}}, "additionalProperties": True})
    assert welcome.check({"rte": 2}) == []


def test_secrets_are_masked() -> None:
    options = {**GOOD, "access_token": "", "proxy": {"url": "u", "key": "k"}, "language": "de"}
    assert RULES.masked(options) == {
        "homeserver": "https://a.example",
        "password": MASK,
        "access_token": "",
        "proxy": MASK,
        "language": "de",
    }
    assert RULES.secrets(options) == {"hunter2", "", "u", "k"}


def test_what_no_schema_describes_is_a_secret() -> None:
    assert ConnectorOptions("any", None).masked({"a": 5, "b": None}) == {"a": MASK, "b": None}
    lax = ConnectorOptions("m", {"properties": {"a": True}})
    assert lax.masked({"a": 5, "b": 6}) == {"a": 5, "b": MASK}


def test_a_secret_behind_a_reference_is_masked() -> None:
    schema = {
        "$defs": {"login": {"properties": {"password": {"writeOnly": True}}}},
        "properties": {"login": {"$ref": "#/$defs/login"}, "rate": {"type": "integer"}},
    }
    assert ConnectorOptions("m", schema).masked({"login": {"password": "x"}, "rate": 1}) == {
        "login": MASK,
        "rate": 1,
    }


def test_defaults_are_filled_in() -> None:
    first, second = RULES.with_defaults(GOOD), RULES.with_defaults({**GOOD, "rate": 5})
    assert first == {**GOOD, "language": "en", "rate": 3, "list": []}
    assert second["rate"] == 5
    first["list"].append("x")
    assert RULES.with_defaults(GOOD)["list"] == []


def test_a_change_is_merged() -> None:
    stored = {**GOOD, "rate": 1, "pages": {"a": "x", "b": {"c": 1}}}
    change = {
        "rate": None,
        "language": "de",
        "password": MASK,
        "pages": {"b": {"c": None, "d": 2}, "a": None},
    }
    assert RULES.changed(stored, change) == {**GOOD, "language": "de", "pages": {"b": {"d": 2}}}
    assert RULES.changed(stored, {"pages": {"a": 1}, "rate": {"x": None}})["rate"] == {}
    assert stored["rate"] == 1


def test_a_mask_without_a_stored_value() -> None:
    with pytest.raises(Invalid, match="access_token is masked, but no value is stored"):
        RULES.changed(GOOD, {"access_token": MASK})
    # What is no secret may have this value.
    assert RULES.changed({}, {"homeserver": MASK}) == {"homeserver": MASK}


# Servers that the operator lists

OWN, ANOTHER, DEFAULT = (("http", "10.0.0.5", port) for port in (3000, 3001, 3002))
SERVER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "base_url": {"type": "string", "x-server": True},
        "mirror": {"type": "string", "x-server": True, "default": "http://10.0.0.5:3002/"},
        "picture": {"type": "string"},
    },
}


def server_rules(configured: dict[str, Any] | None = None) -> ConnectorOptions:
    return ConnectorOptions(
        "waha", SERVER_SCHEMA, listed=lambda: (OWN, ANOTHER, DEFAULT), configured=lambda: configured or {}
    )


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("http://10.0.0.5:3000", {OWN}),
        ("HTTP://10.0.0.5.:3000/api/?x", {OWN}),
        ("http://user@167772165:3001", {ANOTHER}),
        ("http://10.0.0.6:3000", set()),
        ("https://10.0.0.5:3000", set()),
        ("https://waha.example", set()),
        ("not a URL", set()),
        (5, set()),
    ],
)
def test_an_instance_has_the_listed_servers_that_its_options_name(url: Any, servers: set[Any]) -> None:
    options = {"base_url": url, "mirror": "", "picture": "http://10.0.0.5:3001/"}
    # The default of a marked option is the operator's.
    assert server_rules().servers(options) == servers | {DEFAULT}
    assert ConnectorOptions("waha", SERVER_SCHEMA).servers(options) == frozenset()


def test_a_default_of_the_configuration_is_an_instances_server() -> None:
    configured = {"base_url": "http://10.0.0.5:3001"}
    assert server_rules(configured).servers({}) == {ANOTHER, DEFAULT}
    assert server_rules(configured).servers({"base_url": "http://10.0.0.5:3000"}) == {OWN, DEFAULT}


def test_which_instance_uses_a_listed_server_is_the_operators_choice() -> None:
    rules, public = server_rules(), {"base_url": "https://waha.example"}
    for url in ("http://10.0.0.5:3000", "http://167772165:3000/x"):
        assert rules.reserved(public, {"base_url": url}) == ["base_url"]
    assert rules.reserved({"base_url": "http://10.0.0.5:3001"}, {"base_url": "http://10.0.0.5:3000"}) == [
        "base_url"
    ]
    assert rules.reserved({"mirror": "https://x.example"}, {}) == ["mirror"]
    # Away from it, to the same server, and between others: as before.
    assert rules.reserved({"base_url": "http://10.0.0.5:3000"}, {"base_url": "http://10.0.0.5:3000/"}) == []
    assert rules.reserved({"base_url": "http://10.0.0.5:3000"}, public) == []
    assert rules.reserved(public, {"base_url": "https://other.example"}) == []
