"""``/openapi.json`` and ``/docs``: the OpenAPI document of the running gateway, and its HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from quart import Blueprint, Response, render_template
from quart_trio import QuartTrio

from hookgw._version import __version__
from hookgw.kernel.schema_parts import Schema
from hookgw.web.auth import is_dashboard, need_of_view
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import JSON, NotJson, describes, operation_of, undeclared
from hookgw.web.openapi.document import INTRODUCTION, Route, build_document
from hookgw.web.openapi.page import groups_of, shapes_of
from hookgw.web.pages import page_headers
from hookgw.web.request_body import current_exchange
from hookgw.web.templates import load_templates

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Operation"
_STYLE = (Path(__file__).parent / "templates" / "docs.css").read_text(encoding="utf-8")


class OpenApiRoutes:
    """The handlers, for one application and its gateway.

    The document is built on first use, because plugins may add routes until then, and cached.

    Args:
        bodies: returns the schemas of the bodies of requests; see :mod:`hookgw.app.json_schemas`.
    """

    def __init__(
        self, app: QuartTrio, gateway: Gateway, bodies: Callable[[Gateway], Mapping[str, Schema]]
    ) -> None:
        self._bodies = bodies
        self._app = app
        self._gateway = gateway
        self._page: bytes | None = None

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("openapi", __name__)
        blueprint.jinja_loader = load_templates("hookgw.web.openapi")
        blueprint.add_url_rule("/openapi.json", view_func=self.openapi)
        blueprint.add_url_rule("/docs", view_func=self.docs)
        return blueprint

    @describes(_TAG, OPEN, {200: {"type": "object", "description": "An OpenAPI 3.1 document."}})
    async def openapi(self) -> Response:
        """Return this document."""
        return _static(self._encoded, {}, JSON)

    @describes(_TAG, OPEN, {200: NotJson("text/html", "An HTML page.")})
    async def docs(self) -> Response:
        """Return this document as an HTML page."""
        if self._page is None:
            server = self._gateway.settings.server
            page = await render_template(
                "docs.html",
                style=_STYLE,
                version=__version__,
                introduction=INTRODUCTION.strip().split("\n\n"),
                base=server.base_path,
                address=server.public_url or f"http://127.0.0.1:8080{server.base_path}",
                groups=groups_of(self.document),
                shapes=shapes_of(self.document),
            )
            self._page = page.encode()
        return _static(self._page, page_headers(_STYLE), "text/html; charset=utf-8")

    @cached_property
    def document(self) -> dict[str, Any]:
        server = self._gateway.settings.server
        return build_document(
            routes_of(self._app),
            self._bodies(self._gateway),
            server.base_path,
            nests_messages=server.is_evolution,
        )

    @cached_property
    def _encoded(self) -> bytes:
        return msgspec.json.encode(self.document)


def _static(body: bytes, headers: dict[str, str], content_type: str) -> Response:
    current_exchange().is_static = True
    return Response(body, headers=headers, content_type=content_type)


def routes_of(app: QuartTrio) -> Iterator[Route]:
    """Yield every route of the HTTP API, except the dashboard's, in the order in which they were added."""
    order = {endpoint: index for index, endpoint in enumerate(app.view_functions)}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (order[rule.endpoint], rule.rule)):
        if is_dashboard(rule.rule):
            continue
        view = app.view_functions[rule.endpoint]
        need = need_of_view(app, rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield Route(rule.rule, method, need, operation_of(view) or undeclared(view))
