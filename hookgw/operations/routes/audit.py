"""``/audit``: who changed what, and when."""

from __future__ import annotations

from functools import partial

from quart import Response, request

from hookgw.core.access import within
from hookgw.kernel.errors import Invalid
from hookgw.kernel.schema_parts import TIME_SCHEMA
from hookgw.operations import responses
from hookgw.operations.present import present_audit_entry
from hookgw.records.api_keys import Right
from hookgw.records.audit import AuditAction
from hookgw.store import AuditQuery
from hookgw.web.auth import current_principal
from hookgw.web.lists import first_of
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, filter_of
from hookgw.web.query import page_of, read_limit, read_times
from hookgw.web.request_body import json_response, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import ENTRY, LIST

_RESOURCES = dict.fromkeys(action.partition(".")[0] for action in AuditAction)
_ACTIONS = (*_RESOURCES, *AuditAction)

_QUERY = (
    filter_of(
        "action",
        "Only this action, such as `key.create`, or all actions of a resource, such as `key`.",
        {"enum": list(_ACTIONS)},
    ),
    filter_of("since", "Only changes of this time or later.", TIME_SCHEMA),
    filter_of("until", "Only changes of before this time.", TIME_SCHEMA),
    *page_of("entries", format="cursor"),
)


class AuditRoutes(RouteGroup):
    @route("GET", "/audit/list")
    @describes("Audit", within_reach(Right.READ), {200: responses.AuditPage}, query=_QUERY)
    async def list_all(self) -> Response:
        """List who changed what within the key's reach, the newest first, page by page.

        Of changes that concern no instance, only a key that reaches everything learns. A page may end early.
        """
        return await self._list(None, None)

    @route("GET", "/audit/list/<instance>")
    @describes("Audit", Right.READ, {200: responses.AuditPage}, query=_QUERY)
    async def list_of_instance(self, instance: str) -> Response:
        """List who changed an instance, its registrations and its keys, the newest first.

        For a global key, this includes former instances of the name.
        """
        if current_principal().is_global:
            return await self._list(instance, None)
        # What happened to a former instance of the name is none of this one's business.
        return await self._list(instance, self._gateway.instances.get(instance).id)

    def _ids(self) -> frozenset[str] | None:
        principal = current_principal()
        if principal.is_global:
            return None
        return frozenset(one.id for one in within(self._gateway.registry, principal))

    async def _list(self, instance: str | None, instance_id: str | None) -> Response:
        given = {name: value for name, value in request.args.items() if value}  # empty means left out
        action = given.get("action")
        if action is not None and action not in _ACTIONS:
            raise Invalid.of(
                "query.action",
                "action must be one of {choices}, not {action!r}.",
                choices=", ".join(_ACTIONS),
                action=action[:64],
            )
        times = read_times(given)
        query = AuditQuery(
            instance=instance,
            instance_id=instance_id,
            among=self._ids() if instance is None else None,
            action=action,
            since=times.get("since"),
            until=times.get("until"),
            cursor=given.get("cursor"),  # opaque: the store refuses a cursor that it did not issue
            limit=read_limit(given),
        )
        await reserve(min(LIST, query.limit * ENTRY))
        page = await self._gateway.audit.list(query)
        is_global = current_principal().is_global
        shown = await first_of(page.entries, partial(present_audit_entry, is_global=is_global))
        cursor = page.cursor if len(shown) == len(page.entries) else page.cursors[len(shown) - 1]
        return json_response(responses.AuditPage(entries=shown, cursor=cursor))
