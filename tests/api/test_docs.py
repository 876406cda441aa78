"""``docs/http.md`` names every route and every field of responses."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hookgw.web import responses
from hookgw.web.app import Application

MANUAL = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


async def test_the_manual_has_every_route_and_no_other(app: Application) -> None:
    rows = re.findall(r"\| (?:`([A-Z]+)`, )?`([A-Z]+) (/[^`?]*)(?:\?[^`]*)?`", MANUAL)
    named = {(method, path) for *methods, path in rows for method in methods if method}
    built = {
        (method, rule.rule.replace("<name>", "<id>").replace("<path:", "<"))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert named == {(method, path.removesuffix("/<label>")) for method, path in built}


def test_the_manual_has_every_field_of_the_responses() -> None:
    types = [getattr(responses, name) for name in responses.__all__]
    words = {field.encode_name for struct in types for field in msgspec.structs.fields(struct)}
    assert {word for word in words if word not in MANUAL} == set()
