"""``/webhook``: registrations. Each path also exists with a trailing label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from quart import Blueprint, Response

from hookgw.api import responses
from hookgw.api.auth import principal_here
from hookgw.api.openapi.describe import describes, json_body
from hookgw.api.present import (
    present_attempt,
    present_done,
    present_lane,
    present_registration,
    present_secret,
)
from hookgw.api.request_body import json_response, read_json, read_optional_json
from hookgw.models.errors import Conflict, NotFound
from hookgw.models.registrations import DEFAULT_LABEL, Registration, RegistrationChange
from hookgw.models.signing_keys import Signature, public_key_of
from hookgw.parsing import parse_grace, parse_registration, unmask_headers, unmask_url

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway


TAG = "Registrations"
URL = "https://crm.example/hook"
SET_BODY = json_body(
    "SetRequest",
    flat={"url": URL, "events": ["MESSAGES_UPSERT", "CONNECTION_UPDATE"]},
    snake_case={
        "url": URL,
        "enabled": True,
        "webhook_by_events": False,
        "webhook_base64": False,
        "events": [],
    },
    camel_case={"url": URL, "enabled": True, "webhookByEvents": False, "events": ["messages.upsert"]},
    nested={"webhook": {"url": URL, "byEvents": False, "headers": {"Authorization": "Bearer 8sK3"}}},
    a_URL_in_webhook={"webhook": URL, "events": ["MESSAGES_UPSERT"]},
    disabled={"url": "vazio", "enabled": False},
)
ROTATE_BODY = json_body("RotateRequest", required=False, an_hour={"grace": "1h"})


class WebhookRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("webhooks", __name__)
        routes = (
            ("POST", "set", self.set),
            ("GET", "find", self.find),
            ("DELETE", "delete", self.delete),
            ("GET", "secret", self.secret),
            ("GET", "publicKey", self.public_key),
            ("POST", "rotateSecret", self.rotate_secret),
            ("POST", "test", self.test),
            ("POST", "resume", self.resume),
        )
        for method, name, view in routes:
            for path in (f"/webhook/{name}/<instance>", f"/webhook/{name}/<instance>/<label>"):
                blueprint.add_url_rule(path, name, view, methods=[method])
        return blueprint

    @describes(TAG, {201: responses.Registration}, body=SET_BODY)
    async def set(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Store a registration.

        With the global key, the instance is made too where there is none and the settings allow it.
        """
        creates = principal_here().is_global and self._gateway.settings.instances.auto_create
        if not creates:
            self._gateway.instances.get(instance)
        change, warnings = parse_registration(await read_json(self._limit), self._gateway.catalog)
        change = self._unmasked(change, instance, label)
        stored, more = await self._gateway.registrations.set(instance, label, change, create=creates)
        return json_response(self._present(stored, [*warnings, *more]), 201)

    def _unmasked(self, change: RegistrationChange, instance: str, label: str) -> RegistrationChange:
        stored = self._gateway.registrations.find(instance, label)
        change = msgspec.structs.replace(change, url=unmask_url(change.url, stored.url if stored else None))
        if change.headers is msgspec.UNSET:
            return change
        headers = unmask_headers(change.headers, stored.headers if stored else {})
        return msgspec.structs.replace(change, headers=headers)

    @describes(TAG, {200: responses.Registration | None})
    async def find(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """The stored registration, or `null` where none is set."""
        self._gateway.instances.get(instance)
        stored = self._gateway.registrations.find(instance, label)
        return json_response(None if stored is None else self._present(stored, []))

    @describes(TAG, {200: responses.Done})
    async def delete(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Delete a registration."""
        self._gateway.instances.get(instance)
        await self._gateway.registrations.delete(instance, label)
        return json_response(present_done("Webhook deleted"))

    @describes(TAG, {200: responses.Secret})
    async def secret(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """The newest signing secret; with signatures v1a, the public key: the private one is never shown."""
        return json_response(present_secret(self._stored(instance, label)))

    @describes(TAG, {200: responses.PublicKey}, errors=(409,))
    async def public_key(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """The newest public key of a registration with signatures v1a."""
        newest = self._stored(instance, label).secrets[0]
        if newest.signature is not Signature.V1A:
            raise Conflict(
                "The registration signs with v1, which has no public key; set signature v1a first."
            )
        return json_response(responses.PublicKey(public_key_of(newest.value)))

    @describes(TAG, {200: responses.Secret}, body=ROTATE_BODY)
    async def rotate_secret(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Make a new signing secret; the old one goes on signing beside it for a while."""
        self._stored(instance, label)
        grace, _ = parse_grace(await read_optional_json(self._limit))
        return json_response(
            present_secret(await self._gateway.registrations.rotate_secret(instance, label, grace))
        )

    @describes(TAG, {200: responses.Attempt}, errors=(409,))
    async def test(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Send an example event now, outside the lane."""
        self._stored(instance, label)
        return json_response(present_attempt(await self._gateway.registrations.test(instance, label)))

    @describes(TAG, {200: list[responses.Lane]})
    async def resume(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Let the registration's lanes try again now."""
        self._stored(instance, label)
        now = self._gateway.clock.steady()
        lanes = self._gateway.registrations.resume(instance, label)
        registration = self._gateway.registrations.find(instance, label)
        return json_response([present_lane(lane, registration, now) for lane in lanes])

    def _stored(self, instance: str, label: str) -> Registration:
        self._gateway.instances.get(instance)
        stored = self._gateway.registrations.find(instance, label)
        if stored is None:
            raise NotFound(f"The instance {instance!r} has no webhook {label!r}; set one first.")
        return stored

    def _present(self, stored: Registration, warnings: list[str]) -> responses.Registration:
        instance = self._gateway.instances.get(stored.instance)
        return present_registration(stored, instance.id, self._gateway.catalog, warnings)
