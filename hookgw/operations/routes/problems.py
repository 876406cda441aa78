"""``/problem``: what is wrong now, by its cause."""

from __future__ import annotations

from quart import Response

from hookgw.core.access import names_within
from hookgw.operations import responses
from hookgw.operations.present import present_group
from hookgw.operations.problem_request import parse_mute
from hookgw.records.api_keys import Right
from hookgw.web.auth import current_principal
from hookgw.web.lists import SILENT_HEADER, first_of, name_silent
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.present import present_done
from hookgw.web.request_body import json_response, read_json, reserve
from hookgw.web.responses import Done
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST

_TAG = "Operation"
_BODY = json_body(
    "MuteRequest",
    for_a_week={"reason": "The customer moves to another host.", "until": "7d"},
    until_a_time={"reason": "Known; repaired on Monday.", "until": "2026-12-24T12:00:00Z"},
)


class ProblemRoutes(RouteGroup):
    @route("GET", "/problem/list")
    @describes(_TAG, within_reach(Right.READ), {200: responses.ProblemPage}, headers=SILENT_HEADER)
    async def list_problems(self) -> Response:
        """List what is wrong now within the key's reach, by its cause, what loses most first.

        It is what the dashboard's overview shows: of webhooks and of instances, at most 2,000 problems each.
        Muted ones come last, and only a key that reaches everything learns of the mutes.
        """
        await reserve(LIST)
        principal, views = current_principal(), self._gateway.views
        names = names_within(self._gateway.registry, principal)
        groups, silent = await views.problem_groups(names, with_mutes=principal.is_global)
        shown = await first_of(groups, present_group)
        page = responses.ProblemPage(problems=shown, others=len(groups) - len(shown))
        return name_silent(json_response(page), silent)

    @route("POST", "/problem/mute/<problem>")
    @describes(_TAG, Right.OPERATE, {200: Done}, body=_BODY, errors=(404,))
    async def mute(self, problem: str) -> Response:
        """Mute a problem until a time, with a reason, which the audit keeps."""
        reason, until = parse_mute(await read_json(self._limit), self._gateway.clock.wall())
        views = self._gateway.views
        await views.mutes.mute(await views.problem_group(problem, None, with_mutes=True), reason, until)
        return json_response(present_done("Problem muted"))

    @route("POST", "/problem/unmute/<problem>")
    @describes(_TAG, Right.OPERATE, {200: Done})
    async def unmute(self, problem: str) -> Response:
        """Show a muted problem again. It may be over, or not muted: nothing happens then."""
        await self._gateway.views.mutes.unmute(problem)
        return json_response(present_done("Problem shown again"))
