"""The routes and request hooks of plugins, called through the boundary."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from typing import Any

from quart import Response, request
from quart.wrappers.response import IterableBody
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Rule

from hookgw.kernel.errors import HookgwError, PluginFailed
from hookgw.kernel.sentences import Sentence
from hookgw.plugins.boundary import Boundary
from hookgw.plugins.hook_implementation import HookImplementation
from hookgw.web.auth import DASHBOARD_PATH, is_dashboard
from hookgw.web.request_body import reserve
from hookgw.web.route_errors import error_response
from hookgw.web.server.response_memory import ONE

_READS = ("GET", "HEAD")
# A route answers with these.
_ANSWERS = (HookgwError, HTTPException)


class PluginRoutes:
    """Contains everything that plugins add to the application."""

    def __init__(self, app: QuartTrio) -> None:
        self._app = app
        self._known = {id(function) for function in self._functions()}
        self._rules = {id(rule) for rule in app.url_map.iter_rules()}

    def contain(self, added_by: HookImplementation, boundary: Boundary) -> None:
        """Contain the additions since the last call.

        Args:
            added_by: the ``hookgw_routes`` that was called.

        Raises:
            PluginFailed: a route is below the dashboard's path, or is there already. It is not reported yet.
        """
        app = self._app
        rules = [*app.url_map.iter_rules()]
        added = [rule for rule in rules if id(rule) not in self._rules]
        known = {call for rule in rules if id(rule) in self._rules for call in _calls(rule)}
        # Before a refusal, so that the next plugin is not blamed for them.
        self._rules = {id(rule) for rule in rules}
        for rule in added:
            path = rule.rule
            # No key is asked for there, because the dashboard's own pages check the session.
            if is_dashboard(path):
                raise added_by.failure(
                    f"the route {path} is below {DASHBOARD_PATH}, which is the dashboard's: choose another "
                    "path, or add a page with hookgw_dashboard_pages"
                )
            if taken := known.intersection(_calls(rule)):
                raise added_by.failure(
                    f"{min(taken)[0]} {path} is a route of hookgw or of another plugin already, so this one "
                    "would never be called: choose another path"
                )
        for endpoint, view in app.view_functions.items():
            if id(view) not in self._known:
                app.view_functions[endpoint] = self._view(added_by, boundary, view)
        hooks: Any = app  # Quart's types of these functions are too narrow for a wrapper
        for functions in hooks.before_request_funcs.values():
            # It may be a check: a request must not be carried out unchecked.
            self._replace(functions, partial(self._view, added_by, boundary, may_be_none=True))
        for functions in hooks.after_request_funcs.values():
            self._replace(functions, partial(self._after, added_by, boundary))
        for functions in hooks.teardown_request_funcs.values():
            self._replace(functions, partial(self._after, added_by, boundary))
        self._known = {id(function) for function in self._functions()}

    def _functions(self) -> list[Any]:
        app = self._app
        scopes = (app.before_request_funcs, app.after_request_funcs, app.teardown_request_funcs)
        hooks = [hook for scope in scopes for functions in scope.values() for hook in functions]
        return [*app.view_functions.values(), *hooks]

    def _replace(self, functions: list[Any], contained: Callable[[Any], Any]) -> None:
        functions[:] = [each if id(each) in self._known else contained(each) for each in functions]

    def _view(
        self,
        added_by: HookImplementation,
        boundary: Boundary,
        view: Callable[..., Any],
        *,
        may_be_none: bool = False,
    ) -> Callable[..., Any]:
        run = self._app.ensure_async(view)

        # wraps: the OpenAPI document reads what describes() noted at the function.
        @wraps(view)
        async def contained(**values: Any) -> Any:
            if not may_be_none and request.method in _READS:
                await reserve(ONE)

            async def respond() -> Any:
                answer = await run(**values)
                if answer is None and may_be_none:
                    return None
                # Inside of the boundary, because an answer can be anything.
                made = await self._app.make_response(answer)
                if not 200 <= made.status_code <= 599:
                    raise ValueError(f"{made.status_code} is no status of a response")
                if isinstance(made.response, IterableBody):
                    made.response.iter = _Parts(made.response.iter, added_by, boundary)
                return made

            try:
                return await boundary.run(_named(added_by, respond), passes=_ANSWERS)
            except PluginFailed:
                # The client does not see the exception: it may hold data of other tenants.
                return error_response(
                    500,
                    [
                        Sentence(
                            "plugin.route_failed",
                            "The plugin {plugin!r} failed; see hookgw's log.",
                            plugin=added_by.plugin,
                        )
                    ],
                )

        return contained

    def _after(
        self, added_by: HookImplementation, boundary: Boundary, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        run = self._app.ensure_async(function)

        @wraps(function)
        async def contained(given: Any) -> Any:
            try:
                answer = await boundary.run(_named(added_by, partial(run, given)))
            except PluginFailed:
                return given
            return answer if isinstance(answer, Response) else given

        return contained


class _Parts:
    """The parts of a streamed body, which are made after the route has returned."""

    def __init__(self, made: AsyncIterator[Any], added_by: HookImplementation, boundary: Boundary) -> None:
        self._made = made
        self._added_by = added_by
        self._boundary = boundary

    def __aiter__(self) -> _Parts:
        return self

    async def __anext__(self) -> Any:
        return await self._contained(self._made.__anext__)

    async def aclose(self) -> None:
        if (close := getattr(self._made, "aclose", None)) is not None:
            await self._contained(close)

    async def _contained(self, call: Callable[[], Awaitable[Any]]) -> Any:
        # Not within the boundary: its cancel scope must not end before a scope that the generator has open
        # while it yields.
        try:
            return await call()
        except StopAsyncIteration:
            raise
        except BaseException as error:  # noqa: BLE001 -- judged below
            failure = error

        async def fail() -> None:
            raise failure

        return await self._boundary.run(_named(self._added_by, fail))


def _calls(rule: Rule) -> set[tuple[str, str]]:
    """Return the methods of a rule, each with its path, whatever the names of the path's values."""
    path = re.sub(r"[^<:>]+>", ">", rule.rule).rstrip("/")
    return {(method, path) for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}


def _named(added_by: HookImplementation, call: Callable[..., Any]) -> HookImplementation:
    return HookImplementation(plugin=added_by.plugin, hook=added_by.hook, call=call)
