"""Quart's side of the application: routes, and what plugins add to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from quart_trio import QuartTrio
from werkzeug.routing import Rule

from hookgw.plugins.boundary import Boundary
from hookgw.plugins.hook_implementation import HookImplementation
from hookgw.web.plugin_routes import PluginRoutes
from hookgw.web.request_body import CheckedRequest


class Routing(QuartTrio):
    """The routes of one application. Plugins get this object.

    Args:
        respond: of the application, to which each request goes first: middleware sees all of them, also those
            of fast paths.
    """

    request_class = CheckedRequest
    has_middleware = False

    def __init__(self, respond: Callable[..., Awaitable[None]]) -> None:
        super().__init__("hookgw.web", static_folder=None)
        self._respond = respond
        # RequestResponse counts bytes: quart-trio 0.12 sends no response to a chunked body over the limit.
        self.config["MAX_CONTENT_LENGTH"] = None
        self.config["BODY_TIMEOUT"] = None  # ClientTimeouts does this without a cancel scope per request
        self.url_map.strict_slashes = False
        self.url_map.merge_slashes = False  # werkzeug would redirect, to a host that the client names

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond to a request as the application does."""
        await self._respond(scope, receive, send, has_middleware=self.has_middleware)

    async def respond_by_route(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the route of a request respond."""
        await super().asgi_app(scope, receive, send)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "asgi_app":  # Quart's documentation has plugins put it there
            self.has_middleware = True

    def expect_plugins(self) -> None:
        """Call this after hookgw's own routes were added, and before those of plugins are."""
        self._plugin_routes = PluginRoutes(self)
        self._own_hooks = self._count_hooks()
        self._own_rules = {id(rule) for rule in self.url_map.iter_rules()}

    def contain(self, added_by: HookImplementation, boundary: Boundary) -> None:
        self._plugin_routes.contain(added_by, boundary)

    @property
    def has_request_hooks(self) -> bool:
        """Whether plugins added functions that run for every request."""
        # Hooks of our own are there: the authentication check, and in a fleet the forwarding, which the fast
        # paths do themselves; and the check of lists.
        return self._count_hooks() > self._own_hooks

    @property
    def plugin_rules(self) -> list[Rule]:
        return [rule for rule in self.url_map.iter_rules() if id(rule) not in self._own_rules]

    def _count_hooks(self) -> int:
        before, after, ended = (
            self.before_request_funcs,
            self.after_request_funcs,
            self.teardown_request_funcs,
        )
        scopes = (before, after, ended, self.url_value_preprocessors)
        return sum(len(functions) for scope in scopes for functions in scope.values())
