"""Options, settings, restart and presence of an instance's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quart import Response

from hookgw.core.access import tags_within
from hookgw.instances import responses
from hookgw.instances.present import own_options, present_connection, present_settings
from hookgw.instances.requests import (
    parse_option_changes,
    parse_presence_of_account,
    parse_settings,
    parse_tags,
)
from hookgw.records.api_keys import Right
from hookgw.records.instances import Instance
from hookgw.web.auth import current_holder
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.request_body import json_response, read_json, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import ONE

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Instances"
_OPTIONS_BODY = json_body("OptionsRequest", a_new_value_and_one_to_remove={"rate": 5, "language": None})
_SETTINGS_BODY = json_body(
    "SettingsRequest", some={"rejectCall": True, "msgCall": "No calls, please.", "groupsIgnore": False}
)
_TAGS_BODY = json_body("TagsRequest", some={"tags": {"tenant": "acme", "plan": "gold"}}, none={"tags": {}})
_PRESENCE_BODY = json_body("PresenceRequest", shown={"presence": "available"})


class AccountRoutes(RouteGroup):
    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._instances = gateway.instances

    @route("GET", "/instance/options/<instance>")
    @describes(_TAG, Right.READ, {200: responses.ConnectorOptions})
    async def options(self, instance: str) -> Response:
        """Return the options of the instance and of its connector; secrets are masked."""
        found = self._instances.get(instance)
        await reserve(ONE)
        return json_response(self._options_of(found))

    @route("PATCH", "/instance/options/<instance>")
    @describes(_TAG, Right.CONNECT, {200: responses.ConnectorOptions}, body=_OPTIONS_BODY, errors=(409, 502))
    async def change_options(self, instance: str) -> Response:
        """Change some options of the instance and of its connector.

        A missing option keeps its value; `null` removes it. If one of the connector changes, a running
        connector starts again. Options with `"x-operator": true` in the schema can be changed only with a
        global key.
        """
        self._instances.get(instance)  # 404 comes before any error of the body
        own, change = parse_option_changes(await read_json(self._limit))
        is_operator = current_holder().principal.is_operator
        changed = await self._instances.change_options(instance, change, own, is_operator=is_operator)
        warnings = self._instances.option_warnings(changed)
        return json_response(self._options_of(changed, warnings=warnings))

    def _options_of(self, instance: Instance, **more: Any) -> responses.ConnectorOptions:
        return responses.ConnectorOptions(
            **own_options(instance),
            options=self._instances.masked_options(instance),
            options_schema=self._instances.options_schema(instance),
            **more,
        )

    @route("PATCH", "/instance/tags/<instance>")
    @describes(_TAG, Right.OPERATE, {200: responses.TaggedInstance}, body=_TAGS_BODY)
    async def change_tags(self, instance: str) -> Response:
        """Replace all tags of the instance.

        An instance's own key cannot, because tags decide limits, and which keys reach an instance. No key can
        change the tags of its own reach.
        """
        self._instances.get(instance)
        tags = tags_within(current_holder().principal, parse_tags(await read_json(self._limit)))
        changed = await self._instances.change_tags(instance, tags)
        return json_response(responses.TaggedInstance(changed.name, changed.tags))

    @route("POST", "/instance/restart/<instance>")
    @route("PUT", "/instance/restart/<instance>")  # clients of Evolution API 1
    @describes(_TAG, Right.CONNECT, {200: responses.Connection}, errors=(409,))
    async def restart(self, instance: str) -> Response:
        """End the connection and start it again.

        The body is ignored. An instance that is not connected is connected.
        """
        await self._instances.restart(instance)
        state = self._instances.connection_state(instance)
        return json_response(present_connection(instance, state, self._instances.close_reason(instance)))

    @route("POST", "/instance/setPresence/<instance>")
    @describes(_TAG, Right.CONNECT, {201: responses.Presence}, body=_PRESENCE_BODY, errors=(409, 501, 502))
    async def set_presence(self, instance: str) -> Response:
        """Show the whole account as available or not."""
        self._instances.get(instance)
        presence = parse_presence_of_account(await read_json(self._limit))
        await self._instances.set_presence(instance, presence)
        return json_response(responses.Presence(presence), 201)

    @route("GET", "/instance/capabilities/<instance>")
    @describes(_TAG, Right.READ, {200: responses.Capabilities})
    async def capabilities(self, instance: str) -> Response:
        """List the calls that the instance's connector answers."""
        return json_response(responses.Capabilities(self._instances.capabilities(instance)))

    @route("POST", "/settings/set/<instance>")
    @describes(_TAG, Right.CONNECT, {201: responses.ChangedSettings}, body=_SETTINGS_BODY)
    async def set_settings(self, instance: str) -> Response:
        """Change how the account behaves; a missing setting keeps its value."""
        self._instances.get(instance)
        change, warnings = parse_settings(await read_json(self._limit))
        warnings += await self._instances.change_settings(instance, change)
        settings = present_settings(self._instances.get(instance).settings)
        return json_response(
            responses.ChangedSettings(responses.NamedSettings(instance, settings), warnings), 201
        )

    @route("GET", "/settings/find/<instance>")
    @describes(_TAG, Right.READ, {200: responses.Settings})
    async def find_settings(self, instance: str) -> Response:
        """Return how the account behaves."""
        return json_response(present_settings(self._instances.get(instance).settings))
