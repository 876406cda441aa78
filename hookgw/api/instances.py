"""``/instance``: instances, their connections and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
from quart import Blueprint, Response, request

from hookgw.api.auth import need_global, principal_here
from hookgw.api.bodies import json_response, read_json
from hookgw.api.presenting import (
    present_done,
    present_instance,
    present_listed_instance,
    present_qr_code,
    present_registration,
    present_state,
)
from hookgw.dialects import Creation, parse_creation
from hookgw.errors import HookgwError
from hookgw.registrations import DEFAULT_LABEL, Instance

if TYPE_CHECKING:
    from hookgw.gateway import Gateway

_UNDO_PATIENCE = 30.0


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

    async def create(self) -> Response:
        """Create an instance, and a registration with it; the key is shown only now."""
        need_global()
        asked = parse_creation(await read_json(self._limit), self._gateway.catalog)
        instance, key = await self._gateway.create_instance(
            asked.name, integration=asked.integration, token=asked.token, options=asked.options
        )
        answer: dict[str, Any] = {"instance": self._present(instance), "hash": key}
        if asked.webhook is not None:
            answer["webhook"] = await self._set_webhook(instance, asked)
        elif asked.warnings:
            answer["warnings"] = asked.warnings
        return json_response(answer, 201)

    async def _set_webhook(self, instance: Instance, asked: Creation) -> dict[str, Any]:
        """Set the registration; where that fails, the instance goes too, so that nothing is half made."""
        assert asked.webhook is not None  # noqa: S101 -- the caller looked
        try:
            stored, more = await self._gateway.set_registration(instance.name, DEFAULT_LABEL, asked.webhook)
        except HookgwError:
            with trio.move_on_after(_UNDO_PATIENCE, shield=True):
                await self._gateway.delete_instance(instance.name)
            raise
        return present_registration(stored, instance.id, self._gateway.catalog, [*asked.warnings, *more])

    async def fetch_instances(self) -> Response:
        """The instances that the key may see; ``?instanceName=`` narrows them."""
        may, name = principal_here().may, request.args.get("instanceName")
        seen = (one for one in self._gateway.instances() if may(one.name) and name in (None, one.name))
        return json_response([present_listed_instance(one, self._state(one.name)) for one in seen])

    async def connection_state(self, instance: str) -> Response:
        """What the connection is doing."""
        return json_response(present_state(instance, self._state(instance)))

    async def connect(self, instance: str) -> Response:
        """Start the connector; a QR code where there is one."""
        self._gateway.instance(instance)
        code = await self._gateway.connect(instance)
        return json_response(present_state(instance, self._state(instance)) | present_qr_code(code))

    async def logout(self, instance: str) -> Response:
        """End the connection."""
        self._gateway.instance(instance)
        await self._gateway.logout(instance)
        return json_response(present_done("Instance logged out"))

    async def delete(self, instance: str) -> Response:
        """Delete the instance with its registrations."""
        self._gateway.instance(instance)
        await self._gateway.delete_instance(instance)
        return json_response(present_done("Instance deleted"))

    def _state(self, instance: str) -> Any:
        return self._gateway.connection_state(instance)

    def _present(self, instance: Instance) -> dict[str, Any]:
        return present_instance(instance, self._state(instance.name))
