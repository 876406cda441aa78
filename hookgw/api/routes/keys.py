"""``/key``: the keys of an instance, and the global ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from quart import Blueprint, Response

from hookgw.api import responses
from hookgw.api.auth import holder_here
from hookgw.api.openapi.describe import describes, json_body
from hookgw.api.present import present_done, present_key
from hookgw.api.request_body import json_response, read_json
from hookgw.models.instances import check_name
from hookgw.parsing import parse_key_request

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

TAG = "Keys"
CREATE_BODY = json_body(
    "KeyRequest", for_good={"name": "crm"}, for_ninety_days={"name": "n8n", "expiresIn": "90d"}
)


class KeyRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("keys", __name__, url_prefix="/key")
        routes = (
            ("POST", "/create/<instance>", self.create),
            ("GET", "/list/<instance>", self.show),
            ("DELETE", "/delete/<instance>/<key_name>", self.delete),
            ("POST", "/create", self.create_global),
            ("GET", "/list", self.show_global),
            ("DELETE", "/delete/<key_name>", self.delete_global),
        )
        for method, path, view in routes:
            blueprint.add_url_rule(path, view_func=view, methods=[method])
        return blueprint

    @describes(TAG, {201: responses.CreatedKey}, body=CREATE_BODY, errors=(409,))
    async def create(self, instance: str) -> Response:
        """Make a key of an instance; it is shown only now.

        A key that expires makes none that outlives it.
        """
        self._gateway.instances.get(instance)
        return await self._create(instance)

    @describes(TAG, {201: responses.CreatedKey}, body=CREATE_BODY, errors=(409,))
    async def create_global(self) -> Response:
        """Make a global key; it is shown only now."""
        return await self._create(None)

    async def _create(self, scope: str | None) -> Response:
        now = self._gateway.clock.steady()
        asked, warnings = parse_key_request(await read_json(self._limit), now=now)
        name = check_name(asked.name, "name")
        stored, key = await self._gateway.keys.create(
            scope, name, expires_at=asked.expires_at, maker=holder_here()
        )
        shown = msgspec.structs.asdict(present_key(stored, scope, current=holder_here().key, now=now))
        made = responses.CreatedKey(key=key, warnings=warnings or msgspec.UNSET, **shown)
        return json_response(made, 201)

    @describes(TAG, {200: list[responses.Key]})
    async def show(self, instance: str) -> Response:
        """The keys of an instance, the oldest first."""
        return self._show(instance)

    @describes(TAG, {200: list[responses.Key]})
    async def show_global(self) -> Response:
        """The global keys, the oldest first."""
        return self._show(None)

    def _show(self, scope: str | None) -> Response:
        now, current = self._gateway.clock.steady(), holder_here().key
        keys = self._gateway.keys.list(scope)
        return json_response([present_key(key, scope, current=current, now=now) for key in keys])

    @describes(TAG, {200: responses.Done}, errors=(409,))
    async def delete(self, instance: str, key_name: str) -> Response:
        """Revoke a key of an instance: it opens nothing from now on.

        A key that expires revokes none that outlives it, and the last key of an instance takes a global one.
        """
        check_name(key_name, "The name of the key")
        await self._gateway.keys.revoke(instance, key_name, by=holder_here())
        return json_response(present_done("Key deleted"))

    @describes(TAG, {200: responses.Done}, errors=(404, 409))
    async def delete_global(self, key_name: str) -> Response:
        """Revoke a global key: it opens nothing from now on.

        One that never expires remains, so that nobody is locked out.
        """
        check_name(key_name, "The name of the key")
        await self._gateway.keys.revoke(None, key_name, by=holder_here())
        return json_response(present_done("Key deleted"))
