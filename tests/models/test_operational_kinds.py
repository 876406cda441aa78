"""The kinds of operational events: a meaning, a schema and an example each, and a line in the manual."""

import re
from pathlib import Path

import jsonschema_rs
import pytest

from hookgw import EventKind
from tests.public.records import BUILT_IN_KINDS, OPERATIONAL_KINDS, Catalog

MANUAL = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
kinds = pytest.mark.parametrize("kind", OPERATIONAL_KINDS, ids=lambda kind: kind.name)


@kinds
def test_each_example_satisfies_its_schema_and_has_every_field(kind: EventKind) -> None:
    jsonschema_rs.meta.validate(kind.schema)
    assert jsonschema_rs.validator_for(kind.schema).is_valid(kind.example)
    assert list(kind.example) == kind.schema["required"] == list(kind.schema["properties"])
    assert kind.operational
    assert kind.meaning.endswith(".")


@kinds
def test_the_manual_has_every_kind_with_its_fields(kind: EventKind) -> None:
    (row,) = re.findall(rf"^\| `{kind.name}` \|.+$", MANUAL, re.MULTILINE)
    about = {"registration", "instance", "label", "url"}
    assert {field for field in kind.example if f"`{field}`" not in row} == about


def test_they_stand_beside_the_built_in_kinds() -> None:
    Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS])
    assert not any(kind.operational for kind in BUILT_IN_KINDS)


def test_the_manual_names_every_common_field() -> None:
    for field in ("registration", "instance", "label", "url"):
        assert re.search(rf"^\|.*`{field}`", MANUAL, re.MULTILINE)
