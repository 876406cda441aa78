"""The document of ``apply`` as JSON Schema, made of the tables of fields. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.accounts.document import IGNORED_PREFIX
from hookgw.accounts.key_plan import OF_DOCUMENT, OF_TABLE
from hookgw.instances.fields import CATCH_UP, OPTIONS_REQUEST, SETTINGS, TAGS_SCHEMA
from hookgw.kernel.fields import request_schema
from hookgw.kernel.rules import HEADERS
from hookgw.kernel.schema_parts import NAME_SCHEMA, Schema, enum, flag, object_schema, or_null, ref
from hookgw.kernel.signing_keys import Signature
from hookgw.records.event_filters import FilterOp
from hookgw.records.registrations import Ordering
from hookgw.records.tags import TAG_PART
from hookgw.webhooks.fields import FIELDS, RETRY
from hookgw.webhooks.filters import CONDITION
from hookgw.webhooks.tls import TLS

_WEBHOOK = request_schema(
    FIELDS, "A webhook. A missing field stays as it is; a new one needs a URL.", is_patch=True, is_closed=True
)
_WEBHOOK["properties"]["paused"] = flag(
    "Whether its deliveries wait. A new one delivers nothing before a resume."
)
_SETTINGS = request_schema(SETTINGS, "A missing field stays as it is.", is_closed=True)


def _by_name(item: Schema, description: str) -> Schema:
    return {
        "type": "object",
        "propertyNames": {"pattern": NAME_SCHEMA["pattern"]},
        "additionalProperties": item,
        "description": description,
    }


_PARTS: dict[str, Schema] = {
    "connector": or_null(
        ref("ConnectorName"), "The connector; a new instance without one has events over HTTP."
    ),
    "options": or_null(
        ref("OptionsRequest"), "Options of the instance and of its connector; null removes one."
    ),
    "settings": or_null(ref("DeclaredSettings"), "How the account behaves."),
    "tags": or_null(ref("DeclaredTags"), "All tags that it has; null removes one of the defaults."),
    "webhooks": or_null(ref("DeclaredWebhooks"), "Webhooks by their labels."),
}
_TOP: dict[str, Schema] = {
    "name": or_null(
        NAME_SCHEMA, "Tells what this document has made from what others have. `prune` needs it."
    ),
    "defaults": or_null(ref("DeclaredDefaults"), "What all instances have, unless they say something else."),
    "instances": or_null(ref("DeclaredInstances"), "Instances by their names."),
    "keys": or_null(ref("DeclaredKeys"), "Keys of no instance by their names."),
}
APPLY_COMPONENTS: dict[str, Schema] = {
    "ApplyRequest": object_schema(
        "What should be there. What is missing stays as it is.", _TOP, is_closed=True
    ),
    "DeclaredDefaults": object_schema(
        "A value of an instance or a webhook replaces the default of the same field; options, settings and "
        "tags are merged.",
        _PARTS | {"webhook": or_null(ref("DeclaredWebhook"), "Fields of every webhook.")},
        is_closed=True,
    ),
    "DeclaredInstances": _by_name(or_null(ref("DeclaredInstance")), "Instances by their names."),
    "DeclaredInstance": object_schema("An instance. A missing field stays as it is.", _PARTS, is_closed=True),
    "DeclaredSettings": _SETTINGS,
    # The limit holds for the tags that remain when each null has removed a default's tag.
    "DeclaredTags": {name: value for name, value in TAGS_SCHEMA.items() if name != "maxProperties"}
    | {"additionalProperties": {"type": ["string", "null"], "pattern": f"^{TAG_PART}$"}},
    "DeclaredWebhooks": _by_name(or_null(ref("DeclaredWebhook")), "Webhooks by their labels."),
    "DeclaredWebhook": _WEBHOOK,
    "DeclaredKeys": _by_name(or_null(ref("DeclaredKey")), "Keys of no instance by their names."),
    "DeclaredKey": request_schema(
        (*OF_TABLE, *OF_DOCUMENT),
        "A key. Give tags or instances; with neither, it reaches what the caller's key does.",
        is_closed=True,
    ),
}


def file_schema() -> Schema:
    """Return the schema of a file for editors, which know nothing of a server.

    Names of kinds, connectors and plugins are free, and where a value has a form, ``${NAME}`` fits, too.
    """
    used = {
        **APPLY_COMPONENTS,
        "OptionsRequest": OPTIONS_REQUEST,
        "CatchUpRequest": CATCH_UP,
        "TagsOfInstance": TAGS_SCHEMA,
        "RetryRequest": RETRY,
        "TlsRequest": TLS,
        "FilterCondition": CONDITION,
        "CustomHeaders": HEADERS,
        "FilterOp": enum(FilterOp, "How a condition compares."),
        "Ordering": enum(Ordering, "Which deliveries keep their order."),
        "Signature": enum(Signature, "How deliveries are signed."),
        "KindName": {"type": "string"},
        "ConnectorName": {"type": "string"},
        "PluginBlocks": {"type": "object", "additionalProperties": {"type": "object"}},
    }
    whole = used.pop("ApplyRequest")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hookgw accounts",
        **_for_files(whole | {"patternProperties": {f"^{IGNORED_PREFIX}": True}}),
        "$defs": {name: _for_files(schema) for name, schema in used.items()},
    }


def _for_files(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_for_files(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        # Names of properties and their patterns are no values.
        name: value if name in ("propertyNames", "patternProperties") else _for_files(value)
        for name, value in schema.items()
    }
    if isinstance(reference := found.get("$ref"), str):
        found["$ref"] = reference.replace("#/components/schemas/", "#/$defs/")
    types = found.get("type", ())
    types = [types] if isinstance(types, str) else list(types)
    if {"pattern", "enum", "format"} & found.keys() or {"integer", "boolean"} & {*types}:
        described = {one: found.pop(one) for one in ("description", "examples") if one in found}
        return {"anyOf": [found, {"type": "string", "pattern": r"\$\{"}]} | described
    return found
