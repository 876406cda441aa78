"""Strict YAML: values, lines, and mistakes."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hookgw.config import yaml_reader as config_yaml
from tests.public.config import read_yaml
from tests.public.config import read_yaml_scalar as read_scalar


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with PyYAML's C parser and its Python parser."""
    monkeypatch.setattr(config_yaml, "LOADER", getattr(yaml, request.param))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("1.5", 1.5),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_plain_scalars_mean_what_they_look_like(text: str, value: Any) -> None:
    read = read_yaml(f"key: {text}").value["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("no", "yes", "on", "off", "y", "No", "True", "FALSE", "Null", "012", "0x1F", "0o17", "1_000"),
        *("12:30", "12:30:45", "2026-11-20", ".5", "5.", ".inf", ".nan", "1e999", "1e", "٣", "5s", "=", "<<"),
        "9" * 101,
    ],
)
def test_values_that_yaml_readers_misread_are_text(text: str) -> None:
    assert read_yaml(f"key: {text}").value == {"key": text}


@pytest.mark.parametrize("text", ["'5'", '"5"', "|-\n  5", ">-\n  5"])
def test_a_quoted_scalar_is_text(text: str) -> None:
    assert read_yaml(f"key: {text}").value == {"key": "5"}


@given(st.text(max_size=20))
def test_any_text_has_a_meaning(text: str) -> None:
    assert isinstance(read_scalar(text), (str, int, float, bool, type(None)))


def test_every_key_and_item_has_its_line() -> None:
    document = read_yaml("# first\nserver:\n  bind:\n  - a\n  - {b: 1}\n\nlog: {level: x,\n  format: y}\n")
    assert document.problems == []
    assert document.lines == {
        "": 2,
        "server": 2,
        "server.bind": 3,
        "server.bind[0]": 4,
        "server.bind[1]": 5,
        "server.bind[1].b": 5,
        "log": 7,
        "log.level": 7,
        "log.format": 8,
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "---\n...\n"])
def test_an_empty_text_is_nothing(text: str) -> None:
    assert read_yaml(text).value is None
    assert read_yaml(text).problems == []


@pytest.mark.parametrize(
    ("text", "path", "line", "sentence"),
    [
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "b.c", 5, "this key appears twice, first in line 3"),
        ("a: 1\n'a': 2\n", "a", 2, "this key appears twice, first in line 1"),
        ("5: x\n", "5", 1, 'write "5" in quotes'),
        ("a:\n  true: x\n", "a.true", 2, 'write "true" in quotes'),
        ("a:\n  ? [b, [c]]\n  : x\n", "a", 2, "a key must be text"),
        ("? {b: c}\n: x\n", "", 1, "a key must be text"),
        ("!!str a: 1\n", "", 1, "a key must be text"),
        ("&x a: 1\n", "", 1, "a key must be text"),
        ("a: &x 1\nb: 2\n", "a", 1, "anchors and aliases"),
        ("a: 1\nb: *x\n", "b", 2, "anchors and aliases"),
        ("a: &x [1]\n", "a", 1, "anchors and aliases"),
        ("a: !!int '5'\n", "a", 1, "tags such as tag:yaml.org,2002:int are not supported"),
        ("a: !!python/object/apply:os.system ['true']\n", "a", 1, "tags such as"),
        ("a: ! x\n", "a", 1, "tags such as"),
        ("a: 1\n---\nb: 2\n", "", 2, "a second document"),
        ("a: [1\nb: 2\n", "", 2, "this is not YAML"),
        ("\tb: 2\n", "", 1, "a tab cannot begin a text: indent with spaces"),
        ("a:\n  b: é\n \tc: 2\n", "", 3, "a tab cannot begin a text: indent with spaces"),
        ("a: 'x\n", "", 2, "this is not YAML"),
        ("a: @x\n", "", 1, "'@' cannot begin a text: write it in quotes"),
        ("a: \x00\n", "", None, "this is not YAML"),
        ("a: \udcff\n", "", None, "this is not "),  # UTF-8, or YAML
    ],
)
def test_each_mistake_has_its_path_and_line(text: str, path: str, line: int | None, sentence: str) -> None:
    problem = read_yaml(text).problems[0]
    assert (problem.path, problem.line) == (path, line)
    assert sentence in problem.sentence


def test_every_problem_is_reported_and_reading_continues() -> None:
    document = read_yaml("a: *x\nb: !t 1\n? [c, {d: e}]\n: 1\nf: {g: 1}\n")
    assert [problem.path for problem in document.problems] == ["a", "b", ""]
    assert document.value["f"] == {"g": 1}


def test_an_alias_bomb_costs_nothing() -> None:
    bomb = "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(100))
    document = read_yaml(bomb)
    assert len(document.problems) == 1 + 100 * 4
    assert document.value["b99"] == [None, None, None]


def _nested(levels: int) -> str:
    return "a: " + "[" * levels + "]" * levels + "\nb: 1\n"


def test_nesting_is_accepted_up_to_the_limit() -> None:
    """The mapping around is one of the 32 levels."""
    assert read_yaml(_nested(31)).problems == []
    (problem,) = read_yaml(_nested(32)).problems
    assert problem.sentence == "this is nested more than 32 levels deep."
    assert problem.path == "a" + "[0]" * 31


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_nesting_far_beyond_the_limit_is_refused_once(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    document = read_yaml("a: " + opening * 500 + "1" + closing * 500 + "\nb: 1\n")
    assert len(document.problems) == 1
    assert document.value["b"] == 1


def test_scalars_are_expanded_before_they_are_read_and_keys_never() -> None:
    document = read_yaml("x: X\nlist: [X, 'X', \"X\"]\nX: 1\n", lambda text: text.replace("X", "5"))
    assert document.value == {"x": 5, "list": [5, "5", "5"], "X": 1}


def test_failed_expansions_have_their_path_and_line() -> None:
    def refuse(text: str) -> str:
        raise ValueError(f"no {text}")

    document = read_yaml("a:\n- x\n- y\n", refuse)
    assert document.problems == [("a[0]", 2, "no x", 3), ("a[1]", 3, "no y", 3)]


@given(st.text(alphabet="ab:- \n[]{}'\"&*!#|>?,%@`\\\t~0", max_size=40))
def test_any_text_gives_a_document_or_a_problem(text: str) -> None:
    document = read_yaml(text)
    assert all(problem.sentence.endswith((".", "itself.")) for problem in document.problems)


def anchored(text: str) -> Any:
    return read_yaml(text, anchors=True)


def test_anchors_are_read_if_the_caller_allows_them() -> None:
    document = anchored("a: &one {x: 1}\nb: *one\nc: [*one, &t text, *t]\n")
    assert (document.value, document.problems) == (
        {"a": {"x": 1}, "b": {"x": 1}, "c": [{"x": 1}, "text", "text"]},
        [],
    )
    assert read_yaml("a: &one 1").problems[0].sentence.startswith("anchors and aliases")


def test_a_mappings_own_keys_win_over_merged_ones_and_the_first_merged_over_the_others() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  z: 3\nd: {x: 4, <<: *a}\n"
    value = anchored(text).value
    assert value["c"] == {"x": 1, "y": 1, "z": 3}
    assert value["d"] == {"x": 4, "y": 1}
    assert anchored('"<<": 1').value == {"<<": 1}, "quoted, it is a key"


def test_the_place_of_a_copy_is_where_it_is_written() -> None:
    document = anchored("base: &b\n  x: 1\n  y: [5]\none: *b\ntwo:\n  <<: *b\n  z: 2\n")
    assert document.find("one.x") == (2, 3)
    assert document.find("two.y[0]") == (3, 7)
    assert document.find("two.z") == (7, 3)
    assert document.find("two.nothing.below") == (5, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: *b\n", "there is no anchor &b before this alias."),
        ("a: &b [*b]\n", "there is no anchor &b before this alias."),
        ("a: &b 1\nc: {<<: *b}\n", "<< takes a mapping, or a list of mappings."),
        ("a: &b {x: 1}\nc: {<<: *b, <<: *b, x: 2, x: 3}\n", "this key appears twice"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40)),
            "with this alias, values are more than 32 levels deep.",
        ),
        (
            "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 25)),
            "with this alias, the file has more than 1,000,000 values.",
        ),
    ],
)
def test_aliases_that_lead_nowhere_or_too_far(text: str, sentence: str) -> None:
    assert any(sentence in problem.sentence for problem in anchored(text).problems)
