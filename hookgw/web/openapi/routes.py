"""``/openapi.json``: the OpenAPI document of the running gateway; and the page that ``/docs/http`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from quart import Blueprint, Response, render_template
from quart_trio import QuartTrio

from hookgw._version import __version__
from hookgw.kernel.errors import NotFound
from hookgw.kernel.schema_parts import Schema
from hookgw.web.auth import is_dashboard
from hookgw.web.gzipped import Gzipped
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import JSON, describes, operation_of, undeclared
from hookgw.web.openapi.document import INTRODUCTION, Route, build_document
from hookgw.web.openapi.page import Group, groups_of, shapes_of
from hookgw.web.request_body import current_exchange
from hookgw.web.route_auth import need_of_view
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.templates import load_templates

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.web.app import Application

_TAG = "Operation"
CALL_LIST = "http"
"""The address of the list of calls, below ``/docs``; the other pages of the reference are below it."""
SCHEMAS = "schemas"


class OpenApiRoutes(RouteGroup):
    """The handlers, for one application and its gateway.

    The document is built on first use, because plugins may add routes until then, and cached.

    Args:
        bodies: returns the schemas of the bodies of requests; see :mod:`hookgw.app.json_schemas`.
    """

    def __init__(
        self, app: Application, gateway: Gateway, bodies: Callable[[Gateway], Mapping[str, Schema]]
    ) -> None:
        self._bodies = bodies
        self._app = app
        self._gateway = gateway
        self._pages: dict[tuple[str, str], Gzipped] = {}

    def blueprint(self) -> Blueprint:
        blueprint = super().blueprint()
        blueprint.jinja_loader = load_templates("hookgw.web.openapi")
        return blueprint

    @route("GET", "/openapi.json")
    @describes(_TAG, OPEN, {200: {"type": "object", "description": "An OpenAPI 3.1 document."}})
    async def openapi(self) -> Response:
        """Return this document."""
        current_exchange().is_static = True
        return Response(self._encoded, content_type=JSON)

    async def page(
        self,
        name: str,
        address: str,
        assets: Mapping[str, str],
        headers: Mapping[str, str],
        show: Callable[[str], str],
    ) -> Response:
        """Return a part of this document as an HTML page.

        Args:
            name: of a group of calls, or ``schemas``; empty for the list of all calls.
            address: of the gateway, for the examples.
            assets: the URLs of what the page loads, from the list; it does without them if there are none.
            show: returns the HTML of an example of ``curl``.

        Raises:
            NotFound: there is no page of this name.
        """
        ready = self._pages.get((name, address))
        if ready is None:
            page = await self.html(name, address, assets, show)
            ready = await Gzipped.make(page.encode(), "text/html; charset=utf-8")
            if assets:
                self._pages[name, address] = ready
        return ready.response(headers)

    async def html(
        self,
        name: str,
        address: str,
        assets: Mapping[str, str],
        show: Callable[[str], str],
        *,
        is_site: bool = False,
    ) -> str:
        """Return a page; see :meth:`page`. Those of a static site have links to files, and call nothing."""
        group = next((one for one in self.groups if one.slug == name), None)
        if name not in ("", SCHEMAS) and group is None:
            raise NotFound.of(
                "reference.no_page",
                "The reference has no page {name!r}. It begins at /docs/http.",
                name=name[:64],
            )
        # Links are relative, because a proxy may add a prefix.
        up = "" if name == "" else "../"
        suffix = ".html" if is_site else ""

        def to(target: str) -> str:
            if target == "openapi.json":
                return f"{up}{target}" if is_site else f"{up}../{target}"
            return f"{up}{CALL_LIST}/{target}{suffix}" if target else f"{up}{CALL_LIST}{suffix}"

        return await render_template(
            "docs.html",
            name=name,
            group=group,
            groups=self.groups,
            shapes=shapes_of(self.document) if name == SCHEMAS else (),
            assets=assets,
            asset=lambda asset: f"{up}{assets[asset]}",
            to=to,
            home=f"{up}index.html" if is_site else f"{up}../docs",
            is_site=is_site,
            show=show,
            version=__version__,
            introduction=INTRODUCTION.strip().split("\n\n"),
            address=address,
        )

    @cached_property
    def groups(self) -> list[Group]:
        return groups_of(self.document)

    @cached_property
    def document(self) -> dict[str, Any]:
        server = self._gateway.settings.server
        return build_document(
            routes_of(self._app.routing),
            self._bodies(self._gateway),
            server.address,
            nests_messages=server.is_evolution,
        )

    @cached_property
    def _encoded(self) -> bytes:
        return msgspec.json.encode(self.document)


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
