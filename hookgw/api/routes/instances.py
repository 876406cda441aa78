"""``/instance``: instances, their connections and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quart import Blueprint, Response, request

from hookgw.api import responses
from hookgw.api.auth import principal_here
from hookgw.api.openapi.describe import Parameter, describes, json_body
from hookgw.api.present import (
    present_connection,
    present_done,
    present_instance,
    present_listed_instance,
    present_registration,
)
from hookgw.api.request_body import json_response, read_json
from hookgw.models.instances import Instance
from hookgw.parsing import parse_creation

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway


TAG = "Instances"
CREATE_BODY = json_body(
    "CreateRequest",
    by_HTTP_alone={"instanceName": "loja1"},
    with_a_registration={
        "instanceName": "loja1",
        "integration": "WHATSAPP-BAILEYS",
        "webhook": {"url": "https://crm.example/hook", "events": ["MESSAGES_UPSERT"]},
    },
    older={"instanceName": "loja1", "webhook": "https://crm.example/hook", "webhook_by_events": False},
)
NAME_QUERY = Parameter("instanceName", "Only the instance of this name.", {"type": "string"})


class InstanceRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("instances", __name__, url_prefix="/instance")
        blueprint.add_url_rule("/create", view_func=self.create, methods=["POST"])
        blueprint.add_url_rule("/fetchInstances", view_func=self.fetch_instances)
        blueprint.add_url_rule("/connectionState/<instance>", view_func=self.connection_state)
        blueprint.add_url_rule("/connect/<instance>", view_func=self.connect)
        blueprint.add_url_rule("/logout/<instance>", view_func=self.logout, methods=["DELETE"])
        blueprint.add_url_rule("/delete/<instance>", view_func=self.delete, methods=["DELETE"])
        return blueprint

    @describes(TAG, {201: responses.CreatedInstance}, body=CREATE_BODY)
    async def create(self) -> Response:
        """Create an instance, and a registration with it.

        The instance's key is shown only now. Where the registration is refused, no instance is made.
        """
        asked = parse_creation(await read_json(self._limit), self._gateway.catalog)
        instance, key, _ = await self._gateway.instances.create(
            asked.name,
            integration=asked.integration,
            token=asked.token,
            options=asked.options,
            webhook=asked.webhook,
        )
        made = responses.CreatedInstance(instance=self._present(instance), hash=key)
        stored = self._gateway.registrations.find(instance.name)
        if asked.webhook is not None and stored is not None:
            warnings = [*asked.warnings, *await self._gateway.registrations.warnings(stored)]
            made.webhook = present_registration(stored, instance.id, self._gateway.catalog, warnings)
        elif asked.warnings:
            made.warnings = asked.warnings
        return json_response(made, 201)

    @describes(TAG, {200: list[responses.ListedInstance]}, query=(NAME_QUERY,))
    async def fetch_instances(self) -> Response:
        """The instances that the key may see."""
        may, name = principal_here().may, request.args.get("instanceName")
        seen = (one for one in self._gateway.instances.all() if may(one.name) and name in (None, one.name))
        return json_response([present_listed_instance(one, self._state(one.name)) for one in seen])

    @describes(TAG, {200: responses.Connection})
    async def connection_state(self, instance: str) -> Response:
        """What the connection is doing."""
        return json_response(present_connection(instance, self._state(instance)))

    @describes(TAG, {200: responses.Connection}, errors=(409,))
    async def connect(self, instance: str) -> Response:
        """Start the connector; a QR code where there is one."""
        self._gateway.instances.get(instance)
        code = await self._gateway.instances.connect(instance)
        return json_response(present_connection(instance, self._state(instance), code))

    @describes(TAG, {200: responses.Done}, errors=(409,))
    async def logout(self, instance: str) -> Response:
        """End the connection."""
        self._gateway.instances.get(instance)
        await self._gateway.instances.logout(instance)
        return json_response(present_done("Instance logged out"))

    @describes(TAG, {200: responses.Done})
    async def delete(self, instance: str) -> Response:
        """Delete the instance with its registrations; what is pending becomes dead letters."""
        self._gateway.instances.get(instance)
        await self._gateway.instances.delete(instance)
        return json_response(present_done("Instance deleted"))

    def _state(self, instance: str) -> Any:
        return self._gateway.instances.connection_state(instance)

    def _present(self, instance: Instance) -> responses.Instance:
        return present_instance(instance, self._state(instance.name))
