"""``/openapi.json`` and ``/docs``: the contract as the running gateway has it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from quart import Blueprint, Response
from quart_trio import QuartTrio

from hookgw.api.auth import is_open
from hookgw.api.contract.declaring import JSON, describes, operation_of, undeclared
from hookgw.api.contract.document import Names, Route, build_document

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

TAG = "Operation"


class ContractRoutes:
    """The handlers, over one application and its gateway.

    The document is made when it is first asked for, as plugins may still add routes before that, and kept.
    """

    def __init__(self, app: QuartTrio, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("contract", __name__)
        blueprint.add_url_rule("/openapi.json", view_func=self.openapi)
        return blueprint

    @describes(TAG, {200: {"type": "object", "description": "An OpenAPI 3.1 document."}})
    async def openapi(self) -> Response:
        """This document. No key."""
        return Response(self._encoded, content_type=JSON)

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
            connectors=self._gateway.connectors,
            plugins=[one.name for one in checkers],
        )


def routes_of(app: QuartTrio) -> Iterator[Route]:
    """Every route of an application, in the order in which they were added."""
    order = {endpoint: index for index, endpoint in enumerate(app.view_functions)}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (order[rule.endpoint], rule.rule)):
        view = app.view_functions[rule.endpoint]
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield Route(rule.rule, method, is_open(rule.rule), operation_of(view) or undeclared(view))
