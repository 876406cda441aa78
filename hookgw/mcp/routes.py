"""``/mcp``: the tools over HTTP (MCP's streamable HTTP, stateless), with the rights of the request's key."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

import msgspec
from quart import Response

from hookgw.concurrency.threads import SYSTEM_THREADS
from hookgw.kernel.json_decoding import decode_json, no_collection
from hookgw.mcp.in_process import ask
from hookgw.mcp.loading import load_server
from hookgw.mcp.tools import Refused
from hookgw.web.auth import VIA, shown_key
from hookgw.web.lists import CURSOR
from hookgw.web.needs import ANY_KEY
from hookgw.web.openapi.describe import Body, describes
from hookgw.web.request_body import current_exchange, read_json
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.asgi_client import AsgiClient
from hookgw.web.server.errors import JSON

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.web.app import Application

_MESSAGE = {"type": "object", "description": "A message of JSON-RPC 2.0, as MCP has it."}
_BODY = Body({JSON: _MESSAGE}, {"the_tools": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}})


class McpRoutes(RouteGroup):
    def __init__(self, app: Application, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    @route("POST", "/mcp")
    @describes(
        "Operation",
        ANY_KEY,
        {200: _MESSAGE, 202: None, 400: dict[str, Any]},
        body=_BODY,
        errors=(501,),
        other=_MESSAGE,
    )
    async def answer(self) -> Response:
        """Answer a client of the Model Context Protocol: tools for assistants, with the rights of the key.

        The transport is streamable HTTP without sessions. It needs the extra `mcp`; without it, 501.
        """
        body = msgspec.json.encode(await read_json(self._limit))
        # The first import takes a second.
        server = await SYSTEM_THREADS.run(load_server)
        scope: Any = current_exchange().scope
        api = OwnApi(self._app, self._gateway.settings.server.base_path, scope)
        headers = [
            pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"content-encoding")
        ]
        found = await server.respond(api, headers, body)
        return Response(found.content, found.status_code, content_type=found.headers.get("content-type"))


class OwnApi:
    """Calls the HTTP API of this process, with the key of a request and from its address."""

    def __init__(self, app: Application, base_path: str, scope: Any) -> None:
        self._app = app
        self._base_path = base_path
        self._scope = scope
        self._key = shown_key(scope["headers"])

    async def call(
        self,
        method: str,
        *path: str | None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        segments = [segment for segment in path if segment is not None]
        for segment in segments:
            if "/" in segment:
                raise Refused(f"{segment!r} is not a name or an id: these contain no slash.")
        url = "/".join((self._base_path, *(quote(segment, safe="") for segment in segments)))
        given = {name: value for name, value in (query or {}).items() if value is not None}
        content = b""
        headers = [(b"host", b"localhost"), (b"apikey", self._key.encode("latin-1"))]
        if body is not None:
            content = msgspec.json.encode({name: value for name, value in body.items() if value is not None})
            headers.append((b"content-type", JSON.encode()))
        headers.append((b"content-length", b"%d" % len(content)))
        found: list[Any] = []
        while True:
            response = await ask(
                lambda scope, receive, send: AsgiClient(scope, receive, send).run(self._app.routing.asgi_app),
                method,
                headers,
                content,
                scheme=self._scope["scheme"],
                path=unquote(url),
                raw_path=url.encode(),
                query_string=urlencode(given, doseq=True).encode(),
                client=self._scope["client"],
                server=self._scope["server"],
                **{VIA: "mcp"},
            )
            with no_collection():  # the gateway's own: limits for foreign texts would refuse long lists
                value = decode_json(response.content)
            if response.is_error:
                messages = value.get("response", {}).get("message", [])
                raise Refused(*map(str, messages))
            if isinstance(value, list):
                found += value
                value = found
            if not (cursor := response.headers.get(CURSOR)):
                return value
            given["cursor"] = cursor

    async def now(self) -> float:
        return time.time()
