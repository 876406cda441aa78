"""Builds the OpenAPI 3.1 document from the routes and their declarations. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookgw._version import __version__
from hookgw.kernel.schema_parts import NAME_SCHEMA, Schema, ref
from hookgw.web import responses
from hookgw.web.auth import INGEST_RULE
from hookgw.web.needs import Need, Scope
from hookgw.web.openapi.components import plain, schemas_of
from hookgw.web.openapi.describe import BYTES, EVENT_STREAM, JSON, NotJson, Operation, OrEvents
from hookgw.web.openapi.error_responses import BAD_SEND, ERRORS, REFUSED, error_components

INTRODUCTION = """\
hookgw delivers the events of messaging instances to callback URLs: durable, in order, signed.

Every response carries `x-hookgw-version`. Every error has one shape; its `message` is a list of sentences
that say what is wrong, where, and what would be right. A path that does not accept a method responds with
405, and lists the accepted methods in `allow`. hookgw ignores unknown fields and names them in
`warnings`; where the schema of a body says `additionalProperties: false`, they get 400.

Bodies are shown in one spelling. Those of Evolution API's clients (`webhook_by_events`, `messages.upsert`,
the fields of a registration in `webhook`, those of a message in `textMessage`) mean the same.
"""
_VARIABLE = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")
_DELIVERY_NAME = {"type": "string", "examples": ["dlv_17"]}
_PATH_PARAMETERS = {
    "instance": ("instance", NAME_SCHEMA | {"examples": ["loja1"]}, "The name of the instance."),
    "label": ("label", NAME_SCHEMA | {"examples": ["crm"]}, "The label of the registration."),
    "job_id": (
        "job",
        {"type": "string", "examples": ["job_5f0c2a1be94d7c3680f1a2b3"]},
        "The id of the job.",
    ),
    "token": ("token", {"type": "string"}, "The secret part of the instance's `ingestUrl`."),
    "below": (
        "below",
        {"type": "string", "examples": ["messages-upsert"]},
        "What the network puts behind the URL, such as the kind of an event.",
    ),
    "key_name": ("key_name", NAME_SCHEMA | {"examples": ["crm"]}, "The name of the key."),
    "kind": ("kind", ref("KindName") | {"examples": ["MESSAGES_UPSERT"]}, "The event kind, in any spelling."),
    "page": ("page", {"type": "string", "examples": ["start"]}, "The path of the page."),
    "name": ("id", _DELIVERY_NAME, "The id of the delivery, or of its event."),
}
"""For each variable in paths: its name in the document, its schema and its meaning."""
_ENDS = {
    "/<label>": "Labelled",
    "/<kind>": "OfKind",
    "/cancel/<instance>/<name>": "One",
    "/<path:page>": "Page",
    "/<path:below>": "Below",
}
"""Ends of paths that also exist without them, and of the operation ids of these paths."""
_ENCODING = "It may be compressed, with `content-encoding: gzip`."
_VERSION_HEADER = {"x-hookgw-version": {"$ref": "#/components/headers/Version"}}
_MEANINGS: Mapping[int, str] = {
    200: "OK.",
    201: "Created.",
    202: "Accepted.",
    204: "OK, without a body.",
    302: "The page is at `Location`.",
    304: "The client has it already, as its `If-None-Match` says.",
    400: "The input breaks a rule, or is not valid JSON. The error may have the form of the call's protocol.",
}


class Route(msgspec.Struct, frozen=True):
    """A route of the application; variables in its path are ``<name>``."""

    path: str
    method: str
    need: Need
    operation: Operation


def build_document(
    routes: Iterable[Route], bodies: Mapping[str, Schema], address: str, *, nests_messages: bool = False
) -> dict[str, Any]:
    """Return the document, ready for JSON, with the routes in their order.

    ``nests_messages`` says that the messages of some errors are lists in the list (``server.compatibility``).

    Args:
        bodies: the schemas of the bodies of requests, by their names.
        address: that of the gateway, or the beginning of its paths, which may be empty.
    """
    known = list(routes)
    contents = _Contents(known)
    if nests_messages:
        # Those of wrong fields are a list in the list.
        text = {"type": "string"}
        nested = {"type": "array", "minItems": 1, "items": text}
        contents.components["Messages"]["properties"]["message"]["items"] = {"anyOf": [text, nested]}
    paths: dict[str, Any] = {}
    for route, operation_id in zip(known, _operation_ids(known), strict=True):
        operation = {"operationId": operation_id, **_operation(route, contents)}
        paths.setdefault(document_path(route.path), {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hookgw",
            "version": __version__,
            "license": {"name": "MIT", "identifier": "MIT"},
            "description": INTRODUCTION,
        },
        "servers": [{"url": address or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.operation.tag for route in known)],
        "security": [{"apikey": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {
                **contents.components,
                **bodies,
            },
            "responses": error_components(),
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
    """Return a route's path as in the document: ``/delivery/find/{instance}/{id}``."""
    return _VARIABLE.sub(lambda found: "{" + _PATH_PARAMETERS.get(found[1], (found[1],))[0] + "}", path)


class _Contents:
    """The schemas of all responses, built together so that they share components."""

    def __init__(self, routes: Iterable[Route]) -> None:
        operations = [route.operation for route in routes]
        given = [response for one in operations for response in (*one.responses.values(), one.other)]
        declared = [one.whole if isinstance(one, OrEvents) else one for one in given]
        types = {repr(one): one for one in declared if not (one is None or isinstance(one, dict | NotJson))}
        schemas, self.components = schemas_of((*types.values(), responses.ApiError, responses.NetworkError))
        self._schemas = dict(zip(types, schemas, strict=False))

    def content(self, response: Any) -> dict[str, Any]:
        """Return the ``content`` of a response; empty for a response without a body."""
        if response is None:
            return {}
        if isinstance(response, NotJson):
            text = {"type": "string", "description": response.meaning}
            if response.content_type == "*/*":
                # Generated clients have bytes for the first; programs that know wildcards read the second.
                return {media: {"schema": text | {"format": "binary"}} for media in (BYTES, "*/*")}
            return {response.content_type: {"schema": text}}
        if isinstance(response, OrEvents):
            # A text, as the whole stream is one: OpenAPI 3.1 has no schema for a single message.
            return self.content(response.whole) | self.content(NotJson(EVENT_STREAM, response.events))
        schema = plain(response) if isinstance(response, dict) else self._schemas[repr(response)]
        return {JSON: {"schema": schema}}


def _operation_ids(routes: Sequence[Route]) -> Iterator[str]:
    """Yield ``webhookSetLabelled``: the words of a path, and how it differs from others of these words."""
    posts = {route.path for route in routes if route.method == "POST"}
    per_instance = {_words(route.path) for route in routes if "<instance>" in route.path}
    taken: set[str] = set()
    for route in routes:
        found = words = _words(route.path)
        is_second = route.method in ("PATCH", "PUT") or (route.method != "POST" and route.path in posts)
        if is_second or route.path.startswith(INGEST_RULE):
            found += route.method.capitalize()
        if words in per_instance and "<instance>" not in route.path:
            found += "Global"
        found += next((word for end, word in _ENDS.items() if route.path.endswith(end)), "")
        # Routes of plugins may still have the same id; generators make one method of each.
        while found in taken:
            found += "Again"
        taken.add(found)
        yield found


def _words(path: str) -> str:
    words = [word for part in path.split("/") for word in re.findall(r"\w+", part) if "<" not in part]
    name = "".join(word[0].upper() + word[1:] for word in words) or "Root"
    return name[0].lower() + name[1:]


def _operation(route: Route, contents: _Contents) -> dict[str, Any]:
    declared, path = route.operation, document_path(route.path)
    operation: dict[str, Any] = {
        "tags": [declared.tag],
        "summary": declared.summary or f"{route.method} {path}",
        "description": f"{declared.description}\n\n{_sentence(route.need)}".strip(),
        "x-right": route.need.word,
    }
    parameters = []
    for variable in _VARIABLE.findall(route.path):
        shown, schema, meaning = _PATH_PARAMETERS.get(variable, (variable, {"type": "string"}, ""))
        parameter = {"name": shown, "in": "path", "required": True, "schema": schema}
        parameters.append(parameter | ({"description": meaning} if meaning else {}))
    for one in declared.query:
        parameter = {
            "name": one.name,
            "in": one.place,
            "description": one.meaning,
            "schema": plain(one.schema),
        }
        flags = {"allowEmptyValue": one.may_be_empty, "required": one.is_required}
        parameters.append(parameter | {flag: True for flag, is_set in flags.items() if is_set})
    if parameters:
        operation["parameters"] = parameters
    if declared.body is not None:
        examples = {title: {"value": value} for title, value in declared.body.examples.items()}
        content = {
            media: {"schema": schema} | ({"examples": examples} if media == JSON and examples else {})
            for media, schema in declared.body.schemas.items()
        }
        operation["requestBody"] = {
            "description": f"{declared.body.note} {_ENCODING}".strip(),
            "required": declared.body.required,
            "content": content,
        }
    operation["responses"] = _responses(route, contents)
    if route.need.scope is Scope.OPEN:
        operation["security"] = []
    return operation


def _sentence(need: Need) -> str:
    if need.right is None:
        return "Needs no key." if need.scope is Scope.OPEN else "Needs any key."
    where = {
        Scope.INSTANCE: "on the instance",
        Scope.REACH: "and is about the instances within the key's reach",
        Scope.EVERYTHING: "and a key that reaches everything",
    }
    return f"Needs the right `{need.right}` {where[need.scope]}."


def _responses(route: Route, contents: _Contents) -> dict[str, Any]:
    found: dict[str, Any] = {}
    headers = {
        name: {"description": meaning, "schema": {"type": "string"}}
        for name, meaning in route.operation.headers.items()
    }
    for status, response in route.operation.responses.items():
        found[str(status)] = {"description": _MEANINGS[status], "headers": _VERSION_HEADER | headers}
        if content := contents.content(response):
            found[str(status)]["content"] = content
    for status in sorted(error_statuses(route) - route.operation.responses.keys()):
        found[str(status)] = {"$ref": f"#/components/responses/{ERRORS[status].name}"}
    if not route.operation.responses:
        found["default"] = {"description": "The response of the plugin."}
    if 502 in route.operation.errors:
        found["400"] = {"$ref": f"#/components/responses/{BAD_SEND.name}"}
        found["default"] = {"$ref": f"#/components/responses/{REFUSED.name}"}
    if route.operation.other is not None:
        found["default"] = {
            "description": "A response with another status, which the connector chose.",
            "headers": _VERSION_HEADER,
            "content": contents.content(route.operation.other),
        }
    return found


def error_statuses(route: Route) -> frozenset[int]:
    """Return the status of every error that a route can have."""
    statuses = {400, 408, 431, 500, 505, *route.operation.errors}
    if route.need.scope is not Scope.OPEN:
        statuses |= {401}
        if route.operation.responses:
            statuses |= {429, 503}  # an undeclared route of a plugin may use these for something else
    if route.need.right is not None:
        statuses |= {403}
    if route.need.scope is Scope.INSTANCE:
        statuses |= {404}
    if route.operation.body is not None:
        statuses |= {413, 415}
    return frozenset(statuses)
