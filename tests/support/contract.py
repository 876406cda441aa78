"""Holds the answers that tests get, and the requests that succeed, to ``/openapi.json``."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import httpx
import jsonschema_rs

from tests.public.app import request_schemas
from tests.public.web import AppApplication as Application
from tests.public.web import OpenApiRoutes
from tests.support.spellings import Spelling

NOWHERE = {400, 401, 403, 404, 405, 413, 431, 500}
"""What requests get for which there is no operation, but for OPTIONS."""


# By the document, which most applications share: each validator compiles all of its schemas (3 ms).
_validators: dict[int, tuple[dict[str, Any], dict[str, jsonschema_rs.Validator]]] = {}


class Contract:
    """The document of one application, made when it is first needed."""

    def __init__(self, app: Application) -> None:
        self._app, self._gateway = app, app._gateway
        self._document: dict[str, Any] = {}
        self._paths: list[tuple[re.Pattern[str], dict[str, Any]]] = []

    async def check(self, response: httpx.Response) -> None:
        """A hook for httpx's clients.

        Raises:
            AssertionError: an answer, or a request that succeeded, is not as the document says.
        """
        await response.aread()
        if not self._document:
            self._read()
        request = response.request
        operation = self._operation(request.method, request.url.path)
        if operation is None and request.method == "OPTIONS" and response.is_success:
            return
        if operation is None:
            assert response.status_code in NOWHERE, f"{request.method} {request.url.path} is not declared"
            self._check_body({"$ref": "#/components/schemas/ApiError"}, response.content, request.method)
            return
        told = operation["responses"].get(str(response.status_code), operation["responses"].get("default"))
        assert told is not None, f"{operation['operationId']} does not declare {response.status_code}"
        self._check_answer(self._resolved(told), response)
        if response.is_success and isinstance(request.stream, httpx.ByteStream) and request.content:
            self._check_request(operation, request)

    def _read(self) -> None:
        self._document = OpenApiRoutes(self._app, self._gateway, request_schemas).document
        base = self._gateway.settings.server.base_path
        for path, operations in self._document["paths"].items():
            pages = "[^/]+" if path != "/docs/{page}" else ".+"  # the manual has folders
            pattern = re.sub(r"\\\{\w+\\\}", pages, re.escape(base + path))
            self._paths.append((re.compile(pattern + "/?"), operations))

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        wanted = "get" if method == "HEAD" else method.lower()
        for pattern, operations in self._paths:
            if pattern.fullmatch(path) and wanted in operations:
                found: dict[str, Any] = operations[wanted]
                return found
        return None

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in node:
            return node
        found: Any = self._document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return self._resolved(found)

    def _check_answer(self, told: dict[str, Any], response: httpx.Response) -> None:
        for name, header in told.get("headers", {}).items():
            assert not self._resolved(header).get("required") or name in response.headers, name
        undeclared = {name for name in response.headers if name.startswith("hookgw-")} - set(
            told.get("headers", {})
        )
        assert not undeclared, f"{undeclared} is not declared"
        if "content" in told:
            media = response.headers.get("content-type", "").partition(";")[0]
            assert media in told["content"] or "*/*" in told["content"], f"{media} is not declared"
            if media == "application/json":
                self._check_body(told["content"][media]["schema"], response.content, response.request.method)

    def _check_request(self, operation: dict[str, Any], request: httpx.Request) -> None:
        body = operation["requestBody"]
        media = request.headers["content-type"].partition(";")[0].strip().lower()
        note = body["description"]
        assert media in body["content"] or f"`{media}`" in note or "any content type" in note, media
        if media == "application/json" and media in body["content"]:
            content = request.content
            if "gzip" in request.headers.get("content-encoding", "").lower():
                content = gzip.decompress(content)
            schema = body["content"][media]["schema"]
            spelling = Spelling(self._document["components"]["schemas"], self._gateway.catalog)
            self.validator(schema).validate(spelling.of(schema, json.loads(content)))

    def _check_body(self, schema: dict[str, Any], body: bytes, method: str) -> None:
        if method != "HEAD":
            self.validator(schema).validate(json.loads(body))

    def validator(self, schema: dict[str, Any]) -> jsonschema_rs.Validator:
        """What checks values against a schema of the document."""
        _, validators = _validators.setdefault(id(self._document), (self._document, {}))
        key = json.dumps(schema)
        if key not in validators:
            whole = {"allOf": [schema], "components": self._document["components"]}
            validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return validators[key]
