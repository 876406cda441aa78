"""The list of instances, and the form that creates one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from quart import Response, request

from hookgw.core.access import check_creation, may_create, names_within, tags_within, within
from hookgw.instances.connectors.server_search import FoundServer
from hookgw.kernel.errors import HookgwError, Invalid
from hookgw.kernel.language import N_
from hookgw.records.api_keys import Principal, Right
from hookgw.records.connectors import ConnectionState
from hookgw.records.instances import Instance, check_name
from hookgw.records.tags import parse_tag
from hookgw.site.figure_part import Spark, Sparks
from hookgw.site.list_view import Column, ListView, in_pages, keep_columns, read_view
from hookgw.site.option_form import option_fields, read_options
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Form, NavEntry, Page, Site, visitor
from hookgw.web.forwarding import forward_call
from hookgw.web.needs import within_reach

PAGE = 50
"""Instances on a page."""


class Row(NamedTuple):
    """An instance in the list.

    Attributes:
        reason: why its connection is closed.
        webhooks, failing: the numbers of its registrations, and of the failing ones.
        last_event: when its newest event was accepted, in seconds since the epoch.
    """

    name: str
    integration: str
    state: ConnectionState
    reason: str | None
    webhooks: int
    failing: int
    backlog: int
    last_event: float | None
    account: str
    tags: str
    spark: Spark | None


_SORTS = ("name", "webhooks", "pending")
_COLUMNS = (
    Column("integration", N_("Integration"), style="c-word"),
    Column("account", N_("Account"), is_usual=False, style="c-name"),
    Column("tags", N_("Tags"), is_usual=False, style="c-name"),
    Column("last", N_("Last event"), style="c-time"),
    Column("day", N_("Last day"), style="c-spark"),
    Column("webhooks", N_("Webhooks"), sort="webhooks", style="c-event number"),
    Column("pending", N_("Pending"), sort="pending", style="c-count number"),
)
_FAILING = "failing"
"""What the filter for the state calls instances with a webhook that fails."""
_DIGITS = 6
"""So many digits in a search may be a part of an account's number."""


class InstancesPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._sparks = Sparks(site.gateway)
        site.nav.append(NavEntry(N_("Instances"), "/instances"))
        site.add("/instances", self._page, within_reach(Right.READ))
        # Not below /instances/: every name there may be an instance's.
        site.add("/live/instances", self.live, within_reach(Right.READ))
        site.add("/new-instance", self.create, within_reach(Right.INSTANCES), "POST", page="/instances")
        site.add("/new-instance/options", self.options, Right.INSTANCES)
        site.add("/find-servers", self.find_servers, Right.OPERATE, "POST", page="/instances")

    async def find_servers(self) -> Response:
        """Show the servers of connectors beside the gateway."""
        await self._site.form()
        return await self._page(servers=await self._gateway.server_search.find())

    async def _page(
        self,
        form: Form | None = None,
        error: HookgwError | None = None,
        servers: Sequence[FoundServer] | None = None,
    ) -> Response:
        view = _asked()
        # What clients of Evolution API get for an account of WhatsApp is what people want here, too.
        usual = self._gateway.settings.instances.integrations.get("WHATSAPP-BAILEYS", "")
        chosen = form.get("integration") if form else request.args.get("integration", usual)
        codes = 0
        if visitor().has(Right.CONNECT):
            found = await self._gateway.views.codes(names_within(self._gateway.registry, visitor().principal))
            codes = len(found.codes)
        table, is_filter_wrong = "", False
        try:
            table = await self._table(visitor().principal, view)
        except Invalid as wrong:
            error, is_filter_wrong = wrong, True
        response = await self._site.render(
            "instances.html",
            table=table,
            is_filter_wrong=is_filter_wrong,
            view=view,
            states=[*ConnectionState, _FAILING],
            live=f"/live/instances?{view.query()}",
            may_create=may_create(visitor().principal),
            integrations=self._gateway.instances.connectors,
            chosen=chosen,
            options=await self._options(chosen, form),
            name=form.get("name") if form else "",
            error=error,
            servers=servers,
            codes=codes,
        )
        return keep_columns(response, view, self._site.root)

    async def live(self) -> Response:
        principal, view = visitor().principal, _asked()
        render = partial(self._table, principal, view)
        return self._streams.open(("instances", principal, view), render)

    async def _table(self, principal: Principal, view: ListView) -> str:
        gateway = self._gateway
        found = await self._found(principal, view)
        number, pages = in_pages(len(found), view.page, PAGE)
        shown = found[(number - 1) * PAGE : number * PAGE]
        names = [one.name for one in shown]
        connections = await gateway.views.connections(names, counts_failing=True)
        newest = await gateway.history.newest(names) if view.has("last") else {}
        sparks = await self._sparks.of_instances(names) if view.has("day") else {}
        rows = []
        for one in shown:
            connection = connections.of(one)
            rows.append(
                Row(
                    one.name,
                    one.integration,
                    connection.state,
                    connection.close_reason,
                    gateway.registrations.count(one.name),
                    connection.failing,
                    gateway.backlog.of_instance(one.name)[0],
                    newest.get(one.name),
                    (connection.account.jid or "").partition("@")[0],
                    ", ".join(f"{name}={value}" for name, value in one.tags.items()),
                    sparks.get(one.name),
                )
            )
        return await self._site.fragment(
            "instances_table.html",
            rows=rows,
            total=len(found),
            page=number,
            pages=pages,
            view=view,
            silent=connections.silent,
        )

    async def _found(self, principal: Principal, view: ListView) -> Sequence[Instance]:
        """Return the instances that match, in order: a few milliseconds for 10,000."""
        gateway, wanted, state = self._gateway, view.get("search").casefold(), view.get("state")
        state = state if state in (*ConnectionState, _FAILING) else ""
        reached = within(gateway.registry, principal)
        tag = parse_tag(view.get("tag")) if view.get("tag") else None
        if tag is not None:
            reached = [one for one in reached if one.tags.get(tag[0]) == tag[1]]
        found = [one for one in reached if wanted in one.name.casefold()] if wanted else list(reached)
        digits = "".join(one for one in wanted if one.isdigit())
        by_number = not found and len(digits) >= _DIGITS
        if by_number:
            found = await gateway.views.matching(reached, digits=digits)
        if state == _FAILING:
            found = await gateway.views.matching(found, is_failing=True)
        elif state:
            found = await gateway.views.matching(found, state=ConnectionState(state))
        name = view.sort.removeprefix("-")
        if name == "pending":
            pending = {instance: count for instance, (count, _) in gateway.backlog.instances()}
            found.sort(key=lambda one: pending.get(one.name, 0))
        elif name == "webhooks":
            count = gateway.registry.count
            found.sort(key=lambda one: count(one.name))
        if view.sort.startswith("-"):
            found.reverse()
        return found

    async def options(self) -> Response:
        """Return the fields for the options of a connector, for the form that creates an instance."""
        return Response(
            await self._options(request.args.get("integration", ""), None),
            content_type="text/html; charset=utf-8",
        )

    async def _options(self, integration: str, form: Form | None) -> str:
        # The schemas have defaults of the operator's, such as addresses of servers.
        if integration not in self._gateway.instances.connectors or not visitor().principal.is_global:
            return ""
        schema = self._gateway.instances.connector_options_schema(integration)
        return await self._site.fragment("option_fields.html", fields=option_fields(schema, {}, form))

    async def create(self) -> Response:
        form = await self._site.form()
        check_creation(visitor().principal)
        instances, integration = self._gateway.instances, form.get("integration")
        try:
            name = check_name(form.get("name"), "The name")
            elsewhere = await forward_call(name)
            if elsewhere is not None:
                return elsewhere
            schema = instances.connector_options_schema(integration) if integration else None
            created = await instances.create(
                name,
                integration=integration,
                options=read_options(form, schema, for_change=False),
                tags=tags_within(visitor().principal, {}),
                limits=visitor().holder.limits,
                is_operator=visitor().principal.is_operator,
            )
        except HookgwError as error:
            return await self._page(form, error)
        # Not a redirect: the key is shown in this response, and nowhere else.
        return await self._site.render(
            "instance_created.html",
            201,
            name=created.instance.name,
            path=instance_path(created.instance.name),
            key=created.key,
            has_connector=bool(integration),
            warnings=instances.option_warnings(created.instance),
        )


def _asked() -> ListView:
    return read_view("/instances", ("search", "state", "tag"), _SORTS, _COLUMNS)
