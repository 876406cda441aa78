"""``/`` and ``/verify-creds``: tell a program what this is, and whether its key is a global key.

A browser is sent to a page for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Response, request

from hookgw._version import __version__
from hookgw.kernel.errors import Unauthorized
from hookgw.web import responses as common
from hookgw.web.auth import VERIFY_PATH, current_principal
from hookgw.web.needs import ANY_KEY, OPEN
from hookgw.web.openapi.describe import describes
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway


EVOLUTION_VERSION = "2.3.7"
"""The version of Evolution API that hookgw behaves like with ``server.compatibility: evolution``."""
_EVOLUTION_MESSAGE = "Welcome to the Evolution API, it is working!"
_MESSAGE = "hookgw, a webhook gateway for messaging instances. It works."


class RootRoutes(RouteGroup):
    """The handlers of ``/`` and ``/verify-creds``."""

    def __init__(self, gateway: Gateway, *, has_dashboard: bool) -> None:
        self._address = gateway.settings.server.address
        self._is_evolution = gateway.settings.server.is_evolution
        # Where people begin. Relative, because a proxy may add a prefix that hookgw does not know.
        self._page = "dashboard/" if has_dashboard else "docs"

    @route("GET", "/")
    @describes("Operation", OPEN, {200: common.About, 302: None})
    async def root(self) -> Response:
        """Return what this is; a browser is redirected to a page.

        A request that prefers `text/html` to JSON gets the redirect.
        """
        accepted = request.accept_mimetypes
        # Not best_match: a client that accepts anything (`*/*`) is a program.
        if accepted.quality("text/html") > accepted.quality("application/json"):
            return Response("", 302, {"location": self._page, "vary": "accept"}, content_type="text/html")
        response = json_response(
            common.About(
                status=200,
                message=_EVOLUTION_MESSAGE if self._is_evolution else _MESSAGE,
                name="hookgw",
                version=EVOLUTION_VERSION if self._is_evolution else __version__,
                documentation=f"{self._address}/docs",
                openapi=f"{self._address}/openapi.json",
                health=f"{self._address}/readyz",
            )
        )
        response.headers["vary"] = "accept"
        return response

    @route("POST", VERIFY_PATH)
    @describes("Operation", ANY_KEY, {200: common.ValidKey})
    async def verify_key(self) -> Response:
        """Say that the key is a global key, as clients of Evolution API ask before they save it.

        Any other key gets 401.
        """
        if not current_principal().is_global:
            raise Unauthorized.of("key.not_global", "This key is not a global key.")
        return json_response(common.ValidKey(200, "The key is a global key."))
