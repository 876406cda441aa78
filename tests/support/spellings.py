"""Spells a request as ``/openapi.json`` does: parsers accept many spellings, the document has one."""

from collections.abc import Mapping
from typing import Any

from hookgw import Invalid
from hookgw.keys import fields as keys
from hookgw.webhooks import fields as webhooks
from tests.public.instances import BESIDE, SETTINGS
from tests.public.kernel import is_whole
from tests.public.records import FOREIGN, Catalog
from tests.public.webhooks import TLS_PARTS

NAMES = {
    **{
        spelling: field.json
        for table in (webhooks.FIELDS, webhooks.RETRY_PARTS, TLS_PARTS, SETTINGS, keys.FIELDS)
        for field in table
        for spelling in field.spellings
        if spelling != field.json
    },
    **dict.fromkeys(("take", "limit"), "offset"),
    "mediaType": "mediatype",
    "contactMessage": "contact",
    "read_messages": "readMessages",
    "id": "remoteJid",
}
"""The published name of each field that has other names."""
NUMBERS = frozenset({"number", "numbers", "mentioned", "phoneNumber"})
"""Fields in which a number may be a JSON number."""
KINDS = ("KindName", "AnyKindName")
EVENTS = {"$ref": "#/components/schemas/EmittedEvent"}
"""The items of a batch, which may be sent without the list if there is one."""
URL = "https://crm.example/hook"


class Spelling:
    """Spells bodies as the components of a document say.

    Args:
        components: the document's schemas by name.
        catalog: the event kinds.
    """

    def __init__(self, components: Mapping[str, Any], catalog: Catalog) -> None:
        self._components = components
        self._catalog = catalog

    def of(self, schema: Mapping[str, Any], value: Any, name: str = "") -> Any:
        """Return a value as a schema has it; unchanged if no other spelling is known.

        Args:
            schema: its schema.
            value: the value.
            name: of the field that has it.
        """
        component = schema.get("$ref", "").rpartition("/")[2]
        if component in KINDS:
            return self._kind(value)
        if component:
            return self.of(self._components[component], value, name)
        if "anyOf" in schema:  # a reference or null
            return value if value is None else self.of(schema["anyOf"][0], value, name)
        if schema.get("items") == EVENTS and not name and not isinstance(value, list):
            value = [value]
        if value == [] and "object" in schema.get("type", ""):  # or a list of types
            value = {}
        if isinstance(value, list):
            return [self.of(schema.get("items", {}), item, name) for item in value]
        if isinstance(value, dict) and "properties" in schema:
            return self._object(schema["properties"], value)
        if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
            return {one: self.of(schema["additionalProperties"], inner) for one, inner in value.items()}
        if name in NUMBERS and is_whole(value):
            return str(int(value))
        is_duration = schema.get("format") == "duration-with-unit"
        return "0s" if is_duration and value in (0, "0") and value is not False else value

    def _kind(self, value: Any) -> Any:
        try:
            return self._catalog.resolve(value, "").name
        except Invalid:
            return value

    def _object(self, properties: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        if "webhook" in properties:
            found = _with_registration(given)
        elif isinstance(given.get("webhook"), str):
            found = given | {"url": given["webhook"]}
        else:
            found = _flat(properties, given)
        for name, published in NAMES.items():
            is_other = published in properties and name not in properties
            if is_other and found.get(published) is None and found.get(name) is not None:
                found = found | {published: found[name]}
        is_disabled = "webhookByEvents" in properties and found.get("enabled") is False
        if is_disabled and isinstance(found.get("url"), str) and len(found["url"]) <= 2048:
            found = found | {"url": URL}  # any string is accepted
        return {name: self.of(properties.get(name, {}), value, name) for name, value in found.items()}


def _with_registration(given: dict[str, Any]) -> dict[str, Any]:
    """The body of create: its webhook may be a URL, with some fields beside it."""
    found = dict(given)
    webhook = given.get("webhook")
    without_url = (
        isinstance(webhook, dict) and webhook.get("url") == "" and webhook.get("enabled") is not False
    )
    if webhook in ("", {}, []) or without_url:
        found["webhook"] = None
    elif isinstance(webhook, str | dict):
        beside = {name: given[name] for name in BESIDE if name in given}
        found["webhook"] = beside | ({"url": webhook} if isinstance(webhook, str) else webhook)
    if isinstance(given.get("integration"), str) and given["integration"] in ("", *FOREIGN):
        found["integration"] = None
    return found


def _flat(properties: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The fields of objects in a body; those of ``webhook`` win, others fill what is missing outside."""
    found = {name: value for name, value in given.items() if value is not None or name not in properties}
    nulls = {name: None for name in given if name not in found}
    for name, inner in given.items():
        if name in properties or not isinstance(inner, dict):
            continue
        inner = {key: value for key, value in inner.items() if value is not None and key != "number"}
        found = found | inner if name == "webhook" else inner | found
        if name == "options" and isinstance(inner.get("mentions"), dict):
            found = inner["mentions"] | found
    return nulls | found
