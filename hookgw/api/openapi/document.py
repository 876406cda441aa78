"""The OpenAPI 3.1 document, made from the routes and what they say of themselves. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hookgw._version import __version__
from hookgw.api import responses
from hookgw.api.auth import Need
from hookgw.api.openapi.components import schemas_of
from hookgw.api.openapi.describe import JSON, Body, Operation, Other
from hookgw.api.openapi.error_responses import ERRORS, failure_responses
from hookgw.api.openapi.links import links_of
from hookgw.parsing.json_schemas import COMPONENTS
from hookgw.parsing.schema_parts import NAME_SCHEMA

INTRODUCTION = """\
hookgw delivers the events of messaging instances to callback URLs: durable, in order, signed.

Every answer carries `x-hookgw-version`. Every error has one shape: its `message` is a list of sentences that
say what is wrong, where, and what would be right. A path that does not take a method answers 405, and says in
`allow` which it takes. Fields that hookgw does not know are ignored, and named in `warnings`.
"""
_VARIABLE = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")
_DELIVERY_NAME = {"type": "string", "examples": ["dlv_17"]}
_PATH = {
    "instance": ("instance", NAME_SCHEMA | {"examples": ["loja1"]}, "The name of the instance."),
    "label": ("label", NAME_SCHEMA | {"examples": ["crm"]}, "The label of the registration."),
    "key_name": ("key_name", NAME_SCHEMA | {"examples": ["crm"]}, "The name of the key."),
    "name": ("id", _DELIVERY_NAME, "The id of the delivery, or of its event."),
}
"""What stands in paths: the name in the document, the schema, the meaning."""
_TWINS = frozenset({"/key/create", "/key/list", "/key/delete/<key_name>"})
"""Paths that also exist for an instance, with the same words."""
_VERSION = {"description": "The version of hookgw.", "required": True, "schema": {"type": "string"}}
_VERSION_HEADER = {"x-hookgw-version": {"$ref": "#/components/headers/Version"}}


class Route(msgspec.Struct, frozen=True):
    """A route of the application.

    Attributes:
        path: with its variables as ``<name>``.
        method: in capitals.
        need: what key it needs.
        operation: what it says of itself.
    """

    path: str
    method: str
    need: Need
    operation: Operation


class Names(msgspec.Struct, frozen=True):
    """The gateway's own lists of names, which bodies may use.

    Attributes:
        kinds: every spelling of the kinds that can be emitted and registered for.
        operational: every spelling of those that hookgw alone raises.
        connectors: the names of connectors.
        plugins: the names of plugins that take options of registrations.
    """

    kinds: Sequence[str]
    operational: Sequence[str]
    connectors: Sequence[str]
    plugins: Sequence[str]


def build_document(routes: Iterable[Route], names: Names, base_path: str) -> dict[str, Any]:
    """The document, as it is put into JSON.

    Args:
        routes: all of them, in the order in which they are shown.
        names: the gateway's own.
        base_path: what stands before every path; empty for nothing.
    """
    known = list(routes)
    types = _Types(known)
    paths: dict[str, Any] = {}
    for route in known:
        paths.setdefault(document_path(route.path), {})[route.method.lower()] = _operation(route, types)
    return {
        "openapi": "3.1.0",
        "info": {"title": "hookgw", "version": __version__, "description": INTRODUCTION},
        "servers": [{"url": base_path or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.operation.tag for route in known)],
        "security": [{"apikey": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": types.components | COMPONENTS | _name_schemas(names),
            "responses": failure_responses(),
            "headers": {
                "Version": {
                    "description": "The version of hookgw.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
            "securitySchemes": {
                "apikey": {"type": "apiKey", "in": "header", "name": "apikey"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def document_path(path: str) -> str:
    """A route's path as the document writes it: ``/delivery/find/{instance}/{id}``."""
    return _VARIABLE.sub(lambda found: "{" + _PATH.get(found[1], (found[1],))[0] + "}", path)


class _Types:
    """The schemas of everything that is answered."""

    def __init__(self, routes: Iterable[Route]) -> None:
        given = [answer for route in routes for answer in route.operation.answers.values()]
        types = list({repr(answer): answer for answer in given if not _is_described(answer)}.values())
        schemas, self.components = schemas_of([*types, responses.Error])
        self._schemas = {repr(answer): schema for answer, schema in zip(types, schemas, strict=False)}

    def content(self, answer: Any) -> dict[str, Any]:
        """What an answer has in it, by its content type."""
        if answer is None:
            return {}
        if isinstance(answer, Other):
            return {answer.content_type: {"schema": {"type": "string", "description": answer.meaning}}}
        schema = answer if isinstance(answer, dict) else self._schemas[repr(answer)]
        return {JSON: {"schema": schema}}


def _is_described(answer: Any) -> bool:
    return answer is None or isinstance(answer, dict | Other)


def _operation(route: Route, types: _Types) -> dict[str, Any]:
    told = route.operation
    made: dict[str, Any] = {
        "operationId": _operation_id(route),
        "tags": [told.tag],
        "summary": told.summary or f"{route.method} {document_path(route.path)}",
    }
    made["description"] = f"{told.description}\n\nNeeds {route.need}.".strip()
    parameters = [*_path_parameters(route.path), *_other_parameters(told)]
    if parameters:
        made["parameters"] = parameters
    if told.body is not None:
        made["requestBody"] = _request_body(told.body)
    made["responses"] = _responses(route, types)
    if route.need is Need.NOTHING:
        made["security"] = []
    return made


def _operation_id(route: Route) -> str:
    """``webhookSetLabelled``: the words of the path, which are enough as no path takes two methods."""
    words = [word for part in route.path.split("/") for word in re.findall(r"\w+", part) if "<" not in part]
    name = "".join(word[0].upper() + word[1:] for word in words) or "Root"
    apart = "Labelled" if route.path.endswith("/<label>") else "Global" if route.path in _TWINS else ""
    return name[0].lower() + name[1:] + apart


def _path_parameters(path: str) -> list[dict[str, Any]]:
    found = []
    for variable in _VARIABLE.findall(path):
        name, schema, meaning = _PATH.get(variable, (variable, {"type": "string"}, ""))
        described = {"description": meaning} if meaning else {}
        found.append({"name": name, "in": "path", "required": True, "schema": schema, **described})
    return found


def _other_parameters(told: Operation) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "in": one.place, "description": one.meaning, "schema": one.schema}
        | ({"allowEmptyValue": True} if one.may_be_empty else {})
        for one in told.query
    ]


def _request_body(body: Body) -> dict[str, Any]:
    examples = {title: {"value": value} for title, value in body.examples.items()}
    content = {
        media: {"schema": schema} | ({"examples": examples} if media == JSON and examples else {})
        for media, schema in body.schemas.items()
    }
    return {"required": body.required, "content": content}


def _responses(route: Route, types: _Types) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for status, answer in route.operation.answers.items():
        content = types.content(answer)
        made[str(status)] = {"description": _MEANINGS[status], "headers": _VERSION_HEADER}
        if content:
            made[str(status)]["content"] = content
        if links := links_of(_operation_id(route), str(status)):
            made[str(status)]["links"] = links
    for status in sorted(failures_of(route)):
        made[str(status)] = {"$ref": f"#/components/responses/{ERRORS[status].name}"}
    if not route.operation.answers:
        made["default"] = {"description": "What the plugin answers."}
    return made


_MEANINGS: Mapping[int, str] = {
    200: "Done.",
    201: "Made.",
    202: "Taken.",
    204: "Done, and nothing to say.",
}


def failures_of(route: Route) -> frozenset[int]:
    """Every status of an error that a route can have."""
    statuses = {400, 408, 431, 500, 505, *route.operation.errors}
    if route.need is not Need.NOTHING:
        statuses |= {401}
        if route.operation.answers:
            statuses |= {429, 503}  # a route of a plugin may have its own
    if route.need in (Need.GLOBAL, Need.INSTANCE):
        statuses |= {403}
    if route.need is Need.INSTANCE:
        statuses |= {404}
    if route.operation.body is not None:
        statuses |= {413, 415}
    return frozenset(statuses)


def _name_schemas(names: Names) -> dict[str, Any]:
    return {
        "KindName": _one_of(names.kinds, "An event kind, in one of its spellings; capitals do not matter."),
        "AnyKindName": _one_of(
            [*names.kinds, *names.operational], "An event kind, also one that hookgw alone raises."
        ),
        "ConnectorName": _one_of(names.connectors, "A connector."),
        "PluginName": _one_of(names.plugins, "A plugin that takes options of registrations."),
    }


def _one_of(names: Sequence[str], meaning: str) -> dict[str, Any]:
    """A schema of a few names; where there are none, nothing fits it."""
    found: dict[str, Any] = {"enum": list(dict.fromkeys(names))} if names else {"not": {}}
    return found | {"description": meaning}
