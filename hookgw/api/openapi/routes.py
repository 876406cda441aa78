"""``/openapi.json`` and ``/docs``: the contract as the running gateway has it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from quart import Blueprint, Response, render_template
from quart_trio import QuartTrio

from hookgw._version import __version__
from hookgw.api.auth import need_of
from hookgw.api.openapi.describe import JSON, Other, describes, operation_of, undeclared
from hookgw.api.openapi.document import INTRODUCTION, Names, Route, build_document
from hookgw.api.openapi.page import groups_of, shapes_of
from hookgw.api.pages import page_headers

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

TAG = "Operation"
STYLE = (Path(__file__).parent / "templates" / "docs.css").read_text(encoding="utf-8")


class ContractRoutes:
    """The handlers, over one application and its gateway.

    The document is made when it is first asked for, as plugins may still add routes before that, and kept.
    """

    def __init__(self, app: QuartTrio, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._page: str | None = None

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("contract", __name__, template_folder="templates")
        blueprint.add_url_rule("/openapi.json", view_func=self.openapi)
        blueprint.add_url_rule("/docs", view_func=self.docs)
        return blueprint

    @describes(TAG, {200: {"type": "object", "description": "An OpenAPI 3.1 document."}})
    async def openapi(self) -> Response:
        """This document."""
        return Response(self._encoded, content_type=JSON)

    @describes(TAG, {200: Other("text/html", "A page.")})
    async def docs(self) -> Response:
        """This document as a page to read."""
        if self._page is None:
            self._page = await self._rendered()
        return Response(self._page, headers=page_headers(STYLE), content_type="text/html; charset=utf-8")

    async def _rendered(self) -> str:
        server = self._gateway.settings.server
        return await render_template(
            "docs.html",
            style=STYLE,
            version=__version__,
            introduction=INTRODUCTION.strip().split("\n\n"),
            base=server.base_path,
            address=server.public_url or f"http://127.0.0.1:8080{server.base_path}",
            groups=groups_of(self.document),
            shapes=shapes_of(self.document),
        )

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return build_document(routes_of(self._app), self._names(), self._gateway.settings.server.base_path)

    @cached_property
    def _encoded(self) -> bytes:
        return msgspec.json.encode(self.document)

    def _names(self) -> Names:
        spellings: dict[bool, list[str]] = {False: [], True: []}
        for kind in self._gateway.catalog:
            spellings[kind.operational] += [kind.name, kind.dotted_name, *kind.aliases]
        checkers = [one for one in self._gateway.hooks.plugins() if "hookgw_check_registration" in one.hooks]
        return Names(
            kinds=spellings[False],
            operational=spellings[True],
            connectors=self._gateway.instances.connectors,
            plugins=[one.name for one in checkers],
        )


def routes_of(app: QuartTrio) -> Iterator[Route]:
    """Every route of an application, in the order in which they were added."""
    order = {endpoint: index for index, endpoint in enumerate(app.view_functions)}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (order[rule.endpoint], rule.rule)):
        view = app.view_functions[rule.endpoint]
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield Route(
                rule.rule, method, need_of(rule.rule, rule.arguments), operation_of(view) or undeclared(view)
            )
