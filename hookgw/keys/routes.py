"""``/key``: the keys of an instance, and the global keys."""

from __future__ import annotations

from msgspec.structs import replace
from quart import Response

from hookgw.keys import responses
from hookgw.keys.fields import Showing, parse_key_request
from hookgw.keys.responses import present_created_key, present_key
from hookgw.records.api_keys import Right
from hookgw.records.instances import check_name
from hookgw.web import responses as common
from hookgw.web.auth import current_holder
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, array
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.present import present_done
from hookgw.web.request_body import json_response, read_json, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST

_TAG = "Keys"
_OWN_BODY = json_body(
    "KeyRequest",
    without_expiry={"name": "crm"},
    for_ninety_days={"name": "n8n", "expiresIn": "90d"},
    to_send_alone={"name": "shop", "rights": ["send"]},
)
_CREATE_BODY = json_body(
    "KeyRequest",
    without_expiry={"name": "crm"},
    for_ninety_days={"name": "n8n", "expiresIn": "90d"},
    of_a_customer={"name": "acme", "tags": {"tenant": "acme"}, "rights": ["read", "replay", "webhooks"]},
    to_fetch_from_an_instance={"name": "crm-pull", "instances": ["loja1"], "rights": ["receive:crm"]},
)


class KeyRoutes(RouteGroup):
    @route("POST", "/key/create/<instance>")
    @describes(_TAG, Right.KEYS, {201: responses.CreatedKey}, body=_OWN_BODY, errors=(409,))
    async def create(self, instance: str) -> Response:
        """Create a key of an instance; it is shown only in this response.

        A key that expires cannot create a key that outlives it, and no key one that can do more.
        """
        self._gateway.instances.get(instance)  # 404 before the body is read and found wrong
        return await self._create(instance)

    @route("GET", "/key/list/<instance>")
    @describes(_TAG, Right.KEYS, {200: list[responses.Key]}, query=(CURSOR_QUERY,), headers=CURSOR_HEADER)
    async def list_keys(self, instance: str) -> Response:
        """List the keys of an instance that can do no more than the caller's key, the oldest first."""
        return await self._list(instance)

    @route("DELETE", "/key/delete/<instance>/<key_name>")
    @describes(_TAG, Right.KEYS, {200: common.Done}, errors=(409,))
    async def delete(self, instance: str, key_name: str) -> Response:
        """Revoke a key of an instance. It is invalid at once.

        A key that expires cannot revoke a key that outlives it. Only a global key can revoke the last key.
        """
        return await self._delete(instance, key_name)

    @route("POST", "/key/create")
    @describes(
        _TAG, within_reach(Right.KEYS), {201: responses.CreatedKey}, body=_CREATE_BODY, errors=(404, 409)
    )
    async def create_global(self) -> Response:
        """Create a key of no instance; it is shown only in this response.

        It reaches `tags` or `instances`, and has `rights`; without them, it can do what the caller's key can,
        and never more than that.
        """
        return await self._create(None)

    @route("GET", "/key/list")
    @describes(
        _TAG,
        within_reach(Right.KEYS),
        {200: list[responses.Key]},
        query=(CURSOR_QUERY,),
        headers=CURSOR_HEADER,
    )
    async def list_global_keys(self) -> Response:
        """List the keys of no instance that can do no more than the caller's key, the oldest first."""
        return await self._list(None)

    @route("DELETE", "/key/delete/<key_name>")
    @describes(_TAG, within_reach(Right.KEYS), {200: common.Done}, errors=(404, 409))
    async def delete_global(self, key_name: str) -> Response:
        """Revoke a key of no instance. It is invalid at once.

        At least one global key without expiry must remain, so that the operator is not locked out.
        """
        return await self._delete(None, key_name)

    async def _create(self, instance: str | None) -> Response:
        now, holder = self._gateway.clock.steady(), current_holder()
        asked = parse_key_request(await read_json(self._limit), now=now, is_of_instance=instance is not None)
        check_name(asked["name"], "name")  # it becomes a part of paths and log lines
        stored, key = await self._gateway.keys.create(instance, **asked, maker=holder)
        created = present_created_key(stored, self._showing(instance, now))
        return json_response(replace(created, key=key), 201)

    async def _list(self, instance: str | None) -> Response:
        await reserve(LIST)
        showing = self._showing(instance, self._gateway.clock.steady())
        found = self._gateway.keys.list(instance, seen_by=current_holder())
        return await array(
            found, lambda key: (key.created_at, key.name), lambda key: present_key(key, showing)
        )

    def _showing(self, instance: str | None, now: float) -> Showing:
        return Showing(instance, current_holder().key, now, self._gateway.keys.names_of)

    async def _delete(self, instance: str | None, key_name: str) -> Response:
        check_name(key_name, "The name of the key")
        # The caller's holder, not its key: the key may have been revoked since the request began.
        await self._gateway.keys.revoke(instance, key_name, by=current_holder())
        return json_response(present_done("Key deleted"))
