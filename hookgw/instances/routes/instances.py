"""``/instance``: instances and their connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from quart import Response, request

from hookgw.connectors import whatsapp_number_of
from hookgw.core.access import check_creation, check_right, tags_within, within
from hookgw.instances import responses
from hookgw.instances.connectors.states import Account
from hookgw.instances.present import (
    present_code,
    present_connection,
    present_instance,
    present_listed_instance,
    present_settings,
    shown_number,
)
from hookgw.instances.requests import parse_creation
from hookgw.kernel.errors import HookgwError, NotFound, Unavailable
from hookgw.kernel.json_fields import cut_short, show_name, unknown_field
from hookgw.records.api_keys import Right
from hookgw.records.connectors import QRCode
from hookgw.records.instances import Instance
from hookgw.records.tags import has_tags, tag_texts
from hookgw.web import responses as common
from hookgw.web.auth import current_holder, current_principal, shown_key
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, SILENT_HEADER, array, name_silent
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes, filter_of, json_body
from hookgw.web.present import present_done, present_started
from hookgw.web.query import TAGS, read_tags
from hookgw.web.request_body import current_exchange, json_response, read_json, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST
from hookgw.webhooks.change import unmask_change
from hookgw.webhooks.fields import Showing
from hookgw.webhooks.responses import present_created_registration

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Instances"
_CREATE_BODY = json_body(
    "CreateRequest",
    events_over_HTTP_only={"instanceName": "loja1"},
    with_a_registration={
        "instanceName": "loja1",
        "webhook": {"url": "https://crm.example/hook", "events": ["MESSAGES_UPSERT"]},
    },
)
_ID_QUERY = Parameter("instanceId", "Only the instance with this id.", {"type": "string"})
_NAME_QUERY = Parameter("instanceName", "Only the instance with this name.", {"type": "string"})
_NUMBER_QUERY = filter_of(
    "number",
    "Only instances with this number: the option `number`, or the number of the account.",
    {"type": "string"},
)
_SEARCH_QUERY = filter_of(
    "search",
    "Only instances whose name, number, profile, connector, reason or a tag (`name=value`) has this text; "
    "case is ignored.",
    {"type": "string"},
)
_PAIRING_QUERY = Parameter(
    "number",
    "The account's phone number, to get a code to type in `pairingCode`, if the network has them.",
    {"type": "string"},
    may_be_empty=True,
)
_FEW = 100
"""So many instances are asked for by their names; if there are more, for all."""
_ENTRY = 4096
"""The bytes of an instance in a list: more than most have."""


class InstanceRoutes(RouteGroup):
    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._instances = gateway.instances

    @route("POST", "/instance/create")
    @describes(
        _TAG,
        within_reach(Right.INSTANCES),
        {201: responses.CreatedInstance},
        body=_CREATE_BODY,
        errors=(409, 502),
    )
    async def create(self) -> Response:
        """Create an instance, optionally with a registration.

        The instance's key is shown only in this response. A refused registration creates no instance. With
        `"qrcode": true` and a connector, the instance is connected at once.
        """
        principal = current_principal()
        check_creation(principal)
        # No 404 here: the instance is what the call makes.
        integrations = self._gateway.settings.instances.integrations
        asked = parse_creation(await read_json(self._limit), self._gateway.catalog, integrations)
        webhook = asked.webhook
        if asked.connect:
            check_right(principal, Right.CONNECT)
        if webhook is not None:
            check_right(principal, Right.WEBHOOKS)
            webhook = unmask_change(webhook, None, self._gateway.hooks.secret_options)
        instance, key, registration = await self._instances.create(
            asked.name,
            integration=asked.integration,
            requested_integration=asked.requested_integration,
            token=asked.token,
            options=asked.options,
            own_options=asked.own_options,
            settings=asked.settings,
            tags=tags_within(principal, asked.tags),
            limits=current_holder().limits,
            is_operator=principal.is_operator,
            webhook=webhook,
        )
        unread = [unknown_field(show_name(name)) for name in asked.options if name not in instance.options]
        warned = [*asked.warnings, *map(str, cut_short(unread)), *self._instances.option_warnings(instance)]
        code = None
        if asked.connect:
            try:
                code = await self._instances.connect(instance.name)  # waits a moment for a code
            except HookgwError as error:  # the instance exists all the same
                warned.append(f"qrcode: the instance is not connected: {error}")
        state = self._instances.connection_state(instance.name)
        created = responses.CreatedInstance(
            instance=present_instance(instance, state, self._instances.masked_options(instance), is_new=True),
            hash=key,
            settings=present_settings(instance.settings),
            ingest_url=self._instances.ingest_url(instance) or UNSET,
            qrcode=UNSET if code is None else present_code(code, self._instances.codes_shown(instance.name)),
        )
        if registration is not None:
            # Looks the host up, at most 2 s, after everything is stored.
            warnings = [*warned, *await self._gateway.registrations.warnings(registration)]
            secret_options = self._gateway.hooks.secret_options
            showing = Showing(instance.id, self._gateway.catalog, secret_options, warnings)
            created.webhook = present_created_registration(registration, showing)
        elif warned:
            created.warnings = warned
        return json_response(created, 201)

    @route("GET", "/instance/fetchInstances")
    @describes(
        _TAG,
        within_reach(Right.READ),
        {200: list[responses.ListedInstance]},
        query=(_NAME_QUERY, _ID_QUERY, _NUMBER_QUERY, _SEARCH_QUERY, TAGS, CURSOR_QUERY),
        errors=(404,),
        headers=CURSOR_HEADER | SILENT_HEADER,
    )
    async def fetch_instances(self) -> Response:
        """List the instances that the key may access.

        In a fleet, the header `hookgw-silent-nodes` names the nodes that did not answer. The connections of
        their instances are unknown: `connecting`, or `close` if nobody connected the instance. If the list
        ends early, its cursor is in `hookgw-cursor`. A `number` that no instance has gets 404.
        """
        # Clients of Evolution API read no cursor: if there is memory, their array has all accounts.
        many = len(within(self._gateway.registry, current_principal()))
        most = max(LIST, min(many * _ENTRY, self._gateway.settings.server.response_memory // 8))
        await reserve(most)
        principal = current_principal()
        # A key of one instance is that instance's: the only one that its caller sees.
        # Whoever has the URL can send events as the network does.
        shows_url = principal.rights.has(Right.CONNECT)
        callers_key = None
        if principal.instance is not None:
            callers_key = shown_key(current_exchange().scope["headers"])
        number = request.args.get("number")
        name, instance_id = request.args.get("instanceName"), request.args.get("instanceId") or None
        tags = read_tags()
        found = [
            instance
            # Filtered, not refused: clients call this with an instance key to find their own instance.
            for instance in within(self._gateway.registry, principal)
            if name in (None, instance.name)
            and instance_id in (None, instance.id)
            and has_tags(instance.tags, tags)
        ]
        few = [instance.name for instance in found] if len(found) <= _FEW else None
        connections = await self._gateway.views.connections(few)
        if number:
            found = [one for one in found if number in self._numbers_of(one, connections.of(one).account)]
            if not found and connections.silent:
                raise Unavailable.of(
                    "fleet.number_unknown",
                    "Not all nodes answered: one of their instances may have this number.",
                )
            if not found:
                raise NotFound.of(
                    "number.no_instance", "No instance has the number {number!r}.", number=number[:64]
                )
        if search := request.args.get("search"):
            shown = ((one, connections.of(one)) for one in found)
            found = [one for one, at in shown if self._has_text(search, one, at.account, at.close_reason)]

        def present(instance: Instance) -> responses.ListedInstance:
            connection = connections.of(instance)
            return present_listed_instance(
                instance,
                connection.state,
                self._instances.masked_options(instance),
                connection.close_reason,
                self._gateway.backlog.of_instance(instance.name),
                self._instances.ingest_url(instance) if shows_url else None,
                connection.account,
                connection.closing,
                callers_key,
            )

        response = await array(found, lambda instance: (instance.name,), present, most)
        return name_silent(response, connections.silent)

    def _numbers_of(self, instance: Instance, account: Account) -> tuple[str | None, ...]:
        # Without the device, as in 5511988887777:3@s.whatsapp.net.
        jid = (account.jid or "").partition("@")[0].partition(":")[0]
        return shown_number(self._instances.masked_options(instance)), account.jid, jid

    def _has_text(self, wanted: str, instance: Instance, account: Account, reason: str | None) -> bool:
        number = shown_number(self._instances.masked_options(instance))
        texts = (instance.name, number, account.jid, account.profile_name, instance.integration, reason)
        shown = (text for text in (*texts, *tag_texts(instance.tags)) if text)
        return any(wanted.casefold() in text.casefold() for text in shown)

    @route("GET", "/instance/connectionState/<instance>")
    @describes(_TAG, Right.READ, {200: responses.Connection})
    async def connection_state(self, instance: str) -> Response:
        """Return the state of the connection."""
        return json_response(self._connection(instance))

    @route("GET", "/instance/connect/<instance>")
    @describes(_TAG, Right.CONNECT, {200: responses.Connection}, query=(_PAIRING_QUERY,), errors=(400, 409))
    async def connect(self, instance: str) -> Response:
        """Start the connector; return a QR code if there is one, and with a `number` a code to type."""
        number = request.args.get("number") or None
        number = None if number is None else whatsapp_number_of(number)
        code = await self._instances.connect(instance, pairing_number=number)  # waits a moment for a code
        url = self._instances.ingest_url(self._instances.get(instance))
        return json_response(self._connection(instance, code, url))

    def _connection(
        self, instance: str, code: QRCode | None = None, ingest_url: str | None = None
    ) -> responses.Connection:
        state = self._instances.connection_state(instance)
        reason, count = self._instances.close_reason(instance), self._instances.codes_shown(instance)
        return present_connection(instance, state, reason, code, ingest_url, count)

    @route("POST", "/instance/rotateIngest/<instance>")
    @describes(_TAG, Right.CONNECT, {200: responses.IngestUrl}, errors=(409, 501))
    async def rotate_ingest(self, instance: str) -> Response:
        """Give the instance a new `ingestUrl`; the old one ends at once.

        Then give the new URL to the network. A connector that does so itself does it when it connects again.
        """
        return json_response(responses.IngestUrl(await self._instances.rotate_ingest(instance)))

    @route("DELETE", "/instance/logout/<instance>")
    @describes(_TAG, Right.CONNECT, {200: common.Done}, errors=(409,))
    async def logout(self, instance: str) -> Response:
        """End the connection."""
        await self._instances.logout(instance)
        return json_response(present_done("Instance logged out"))

    @route("DELETE", "/instance/delete/<instance>")
    @describes(_TAG, Right.INSTANCES, {200: common.Done, 202: common.Started})
    async def delete(self, instance: str) -> Response:
        """Delete the instance with its registrations; pending deliveries become dead letters.

        After a 202 the name is free once the job has ended.
        """
        job = await self._instances.delete(instance)
        if job.is_running:
            return json_response(present_started(job, "Instance deleted"), 202)
        return json_response(present_done("Instance deleted"))
