"""``docs/http.md`` names every route and every field of responses."""

import re
from importlib import import_module
from pathlib import Path

import msgspec

from tests.public.web import AppApplication as Application

SLICES = ("webhooks", "instances", "events", "deliveries", "messages", "keys", "operations")
MANUAL = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


async def test_the_manual_has_every_route_and_no_other(app: Application) -> None:
    rows = re.findall(r"\| (?:`([A-Z]+)`, )?`([A-Z]+) (/[^`?]*)(?:\?[^`]*)?`", MANUAL)
    named = {(method, path) for *methods, path in rows for method in methods if method}
    built = {
        (method, rule.rule.replace("<name>", "<id>").replace("<path:", "<"))
        for rule in app.routing.url_map.iter_rules()
        if not rule.rule.startswith("/alerts/")  # of a plugin, which has a page of its own
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert named == {(method, path.removesuffix("/<label>")) for method, path in built}


def test_the_manual_has_every_field_of_the_responses() -> None:
    modules = [import_module(f"hookgw.{folder}.responses") for folder in ("web", *SLICES)]
    types = [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, msgspec.Struct) and found is not msgspec.Struct
    ]
    words = {field.encode_name for struct in types for field in msgspec.structs.fields(struct)}
    assert {word for word in words if word not in MANUAL} == set()
