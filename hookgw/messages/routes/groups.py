"""``/group``: the groups of an instance's account."""

from __future__ import annotations

from typing import Any

from quart import Response, request

from hookgw.kernel.errors import Invalid
from hookgw.kernel.form_text import truth_of
from hookgw.messages import responses
from hookgw.messages.queries import parse_group
from hookgw.messages.requests import MAX_NUMBER
from hookgw.records.api_keys import Right
from hookgw.web.openapi.describe import Parameter, describes
from hookgw.web.request_body import network_response, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST

_TAG = "Groups"
_ERRORS = (409, 501, 502)
_PARTICIPANTS = Parameter(
    "getParticipants",
    "Whether each group has its `participants`; `false` by default.",
    {"type": "string", "enum": ["true", "false"]},
    may_be_empty=True,
)
_GROUP = Parameter(
    "groupJid",
    "The group.",
    {"type": "string", "minLength": 1, "maxLength": MAX_NUMBER},
    is_required=True,
)


class GroupRoutes(RouteGroup):
    """The handlers of ``/group``. They check in the same order as those of ``/message``."""

    @route("GET", "/group/fetchAllGroups/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: list[responses.Group]}, query=(_PARTICIPANTS,), errors=_ERRORS)
    async def list_groups(self, instance: str) -> Response:
        """List the groups of the account."""
        self._gateway.messages.require(instance, "fetchAllGroups")
        given = request.args.get("getParticipants") or "false"
        if (with_participants := truth_of(given)) is None:
            raise Invalid.of(
                "query.get_participants",
                "getParticipants must be true or false, not {given!r}.",
                given=given[:64],
            )
        await reserve(LIST)
        groups = await self._gateway.messages.list_groups(instance, with_participants=with_participants)
        return await network_response(groups)

    @route("GET", "/group/findGroupInfos/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: responses.Group}, query=(_GROUP,), errors=_ERRORS)
    async def find_group(self, instance: str) -> Response:
        """Return a group with its participants."""
        return await network_response(await self._find(instance, "findGroupInfos"))

    @route("GET", "/group/participants/<instance>")
    @describes(_TAG, Right.PAYLOADS, {200: responses.Participants}, query=(_GROUP,), errors=_ERRORS)
    async def list_participants(self, instance: str) -> Response:
        """List who is in a group."""
        found = await self._find(instance, "participants")
        return await network_response({"participants": found.get("participants") or []})

    async def _find(self, instance: str, call: str) -> dict[str, Any]:
        self._gateway.messages.require(instance, call)
        group = parse_group(request.args.get("groupJid"))
        await reserve(LIST)
        return await self._gateway.messages.find_group(instance, group)
