"""``/webhook``: registrations. Each path also exists with a trailing label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from quart import Response, request

from hookgw.core.access import check_right, names_within
from hookgw.kernel.errors import Conflict
from hookgw.kernel.signing_keys import Signature, public_key_of
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Right
from hookgw.records.jobs import Job
from hookgw.records.registrations import DEFAULT_LABEL, GLOBAL_INSTANCE, Registration
from hookgw.web import responses as common
from hookgw.web.auth import current_principal
from hookgw.web.lists import first_of, make_cursor, read_cursor, wrong_cursor
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.present import present_done, present_started
from hookgw.web.query import TAGS, page_of, read_limit, read_tags
from hookgw.web.request_body import json_response, read_optional_json, read_parsed, reserve
from hookgw.web.route_group import RouteGroup, labelled, route
from hookgw.web.server.response_memory import LIST, ONE
from hookgw.webhooks import lane_responses, responses
from hookgw.webhooks.change import (
    RegistrationChange,
    keep_every_kind,
    parse_grace,
    parse_registration,
    parse_test,
    unmask_change,
)
from hookgw.webhooks.fields import MissedCount, Showing, state_of
from hookgw.webhooks.lane_responses import present_attempt, present_lane
from hookgw.webhooks.requests import parse_backfill, refuse_fields, take_backfill
from hookgw.webhooks.responses import (
    present_listed_registration,
    present_missed_event,
    present_registration,
    present_secret,
)

if TYPE_CHECKING:
    from hookgw.webhooks.service import StoredRegistration

_TAG = "Registrations"
_URL = "https://crm.example/hook"
_SET_BODY = json_body(
    "RegistrationRequest",
    two_kinds={"url": _URL, "events": ["MESSAGES_UPSERT", "CONNECTION_UPDATE"]},
    every_kind={"url": _URL, "headers": {"Authorization": "Bearer 8sK3"}},
    disabled={"url": _URL, "enabled": False},
)
_UPDATE_BODY = json_body(
    "RegistrationUpdate",
    another_URL={"url": _URL},
    other_kinds={"events": ["MESSAGES_UPSERT"]},
    disabled={"enabled": False},
)
_TEST_BODY = json_body(
    "TestRequest",
    required=False,
    an_example={},
    of_a_kind_with_data={"event": "MESSAGES_UPSERT", "data": {"text": "Oi"}},
)
_BACKFILL_BODY = json_body(
    "BackfillRequest",
    two_hours={"since": "2h"},
    counted={"since": "2h", "dryRun": True},
    with_dead_letters={"since": "2026-11-20T12:00:00Z", "dead": True},
)
_ROTATE_BODY = json_body("RotateRequest", required=False, an_hour={"grace": "1h"})
_LIST_QUERY = page_of("registrations")


class WebhookRoutes(RouteGroup):
    @labelled("POST", "/webhook/set/<instance>")
    @describes(
        _TAG,
        Right.WEBHOOKS,
        {201: responses.Registration, 202: responses.Registration},
        body=_SET_BODY,
        errors=(409,),
    )
    async def set(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Store a registration.

        With a global key, this also creates the instance if it does not exist and the settings allow it, but
        not while a former instance of that name is being deleted (409). The status is 202 if it was disabled,
        and a job is still making its pending deliveries dead letters.
        """
        principal = current_principal()
        may_create = principal.is_global and principal.rights.has(Right.INSTANCES)
        creates = may_create and self._gateway.settings.instances.auto_create
        if not creates:
            self._gateway.instances.get(instance)
        change, warnings = await read_parsed(
            self._limit,
            lambda body: parse_registration(body, self._gateway.catalog, self._shown(instance, label)),
        )
        # A client may send back what it read: masked values stand for the stored ones.
        old = self._gateway.registrations.find(instance, label)
        change = unmask_change(change, old, self._gateway.hooks.secret_options)
        change = keep_every_kind(change, old, self._gateway.catalog)
        stored = await self._gateway.registrations.set(instance, label, change, create=creates)
        return self._answer(stored, warnings, 201)

    @labelled("PATCH", "/webhook/set/<instance>")
    @describes(
        _TAG,
        Right.WEBHOOKS,
        {200: responses.Registration, 202: responses.Registration},
        body=_UPDATE_BODY,
        errors=(409,),
    )
    async def update(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Change the given fields of a registration, and nothing else.

        The fields have the spellings of `set`. The status is 202 if it was disabled, and a job is still
        making its pending deliveries dead letters. With `backfill`, a registration that this call enables
        first gets what it has missed while it was disabled; the status is 202 while a job still sends that.
        """
        old = self._gateway.registrations.get(instance, label)  # 404 comes before any error of the body

        def parse(body: Any) -> tuple[RegistrationChange, list[str], bool]:
            rest, backfill = take_backfill(body)
            shown = self._shown(instance, label)
            change, warnings = parse_registration(
                rest, self._gateway.catalog, stored_enabled=old.enabled, shown=shown
            )
            return change, warnings, backfill

        change, warnings, backfill = await read_parsed(self._limit, parse)
        if backfill:
            check_right(current_principal(), Right.REPLAY)
        old = self._gateway.registrations.get(instance, label)
        change = unmask_change(change, old, self._gateway.hooks.secret_options)
        change = keep_every_kind(change, old, self._gateway.catalog)
        stored = await self._gateway.registrations.update(instance, label, change, backfill=backfill)
        return self._answer(stored, warnings, 200)

    @labelled("GET", "/webhook/find/<instance>")
    @describes(_TAG, Right.READ, {200: responses.Registration | None})
    async def find(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Return the stored registration, or `null` if none is set."""
        self._gateway.instances.get(instance)
        await reserve(ONE)
        stored = self._gateway.registrations.find(instance, label)
        # Clients of other gateways expect 200 with null here, not 404.
        if stored is None:
            self._gateway.node.epoch_of(instance)  # once the lease has ended, others may have set it
            return json_response(None)
        return json_response(self._present(stored, self._gateway.registrations.refusals(stored)))

    @labelled("DELETE", "/webhook/delete/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: common.Done, 202: common.Started})
    async def delete(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Delete a registration; pending deliveries become dead letters."""
        self._gateway.registrations.get(instance, label)  # 404 comes before any error of the body
        refuse_fields(await read_optional_json(self._limit), "a deletion")
        job = await self._gateway.registrations.delete(instance, label)
        if job.is_running:
            return json_response(present_started(job, "Webhook deleted"), 202)
        return json_response(present_done("Webhook deleted"))

    @labelled("GET", "/webhook/secret/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: responses.Secret})
    async def secret(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Return the newest signing secret.

        With signatures `v1a` it is the public key; hookgw never shows the private key.
        """
        return json_response(present_secret(self._gateway.registrations.get(instance, label)))

    @labelled("GET", "/webhook/publicKey/<instance>")
    @describes(_TAG, Right.READ, {200: responses.PublicKey}, errors=(409,))
    async def public_key(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Return the newest public key of a registration with signatures `v1a`."""
        newest = self._gateway.registrations.get(instance, label).secrets[0]
        if newest.signature is not Signature.V1A:
            raise Conflict.of(
                "webhook.no_public_key",
                "The registration signs with v1, which has no public key; set signature v1a first.",
            )
        return json_response(responses.PublicKey(public_key_of(newest.value)))

    @labelled("POST", "/webhook/rotateSecret/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: responses.Secret}, body=_ROTATE_BODY)
    async def rotate_secret(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Create a new signing secret; the old secret keeps signing beside it for a grace period."""
        self._gateway.registrations.get(instance, label)  # 404 comes before any error of the body
        grace = parse_grace(await read_optional_json(self._limit))
        return json_response(
            present_secret(await self._gateway.registrations.rotate_secret(instance, label, grace))
        )

    @labelled("POST", "/webhook/test/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: lane_responses.Attempt}, body=_TEST_BODY, errors=(409,))
    async def test(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Send an event now, outside the lane: an example, or `event` and `data` of the body."""
        self._gateway.registrations.get(instance, label)
        kind, data = parse_test(await read_optional_json(self._limit), self._gateway.catalog)
        attempt = await self._gateway.registrations.test(instance, label, kind=kind, data_json=data)
        return json_response(present_attempt(attempt))

    @labelled("POST", "/webhook/pause/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: responses.Registration}, errors=(409,))
    async def pause(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Let the registration's deliveries wait, in order, until it is resumed."""
        self._gateway.registrations.get(instance, label)
        refuse_fields(await read_optional_json(self._limit), "a pause")
        return json_response(self._present(await self._gateway.registrations.pause(instance, label), []))

    @labelled("POST", "/webhook/resume/<instance>")
    @describes(_TAG, Right.WEBHOOKS, {200: list[lane_responses.Lane]}, errors=(409,))
    async def resume(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """End the registration's pause, and let its waiting lanes try again now; return its lanes."""
        self._gateway.registrations.get(instance, label)
        refuse_fields(await read_optional_json(self._limit), "a resume")
        lanes = await self._gateway.registrations.resume(instance, label)
        now = self._gateway.clock.steady()
        return json_response([present_lane(lane, instance, label, now) for lane in lanes])

    @labelled("POST", "/webhook/backfill/<instance>")
    @describes(
        _TAG,
        Right.REPLAY,
        {200: responses.MissedEvents, 202: responses.Backfilled},
        body=_BACKFILL_BODY,
        errors=(409,),
    )
    async def backfill(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Send the registration the events that it has missed, in order, before anything newer.

        These are the events of the log that it would get by its present kinds and filter, and has no delivery
        of. They come behind what is pending now, and before all that is accepted after this call. The
        backfill continues even if the client disconnects. If it takes more than 2 s, the response has its
        job. The status is 200 with `dryRun`, which only counts the events.
        """
        # 404 comes before any error of the body.
        registration = self._gateway.registrations.get(instance, label)
        catalog, now = self._gateway.catalog, self._gateway.clock.steady()
        asked = await read_parsed(self._limit, lambda body: parse_backfill(body, catalog, now=now))
        if asked.filter:  # counts tell what is in the data
            check_right(current_principal(), Right.PAYLOADS)
        backfills = self._gateway.backfills
        if asked.dry_run:
            found = await backfills.find(registration, asked)
            first, last = map(present_missed_event, (found.first, found.last))
            return json_response(responses.MissedEvents(count=found.count, first=first, last=last))
        return json_response(_backfilled(await backfills.backfill(instance, label, asked)), 202)

    @labelled("DELETE", "/webhook/backfill/<instance>")
    @describes(_TAG, Right.REPLAY, {200: responses.Backfilled}, errors=(409,))
    async def cancel_backfill(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """End the registration's backfill: what it has made so far is sent, and then what is newer."""
        self._gateway.registrations.get(instance, label)
        refuse_fields(await read_optional_json(self._limit), "the end of a backfill")
        return json_response(_backfilled(await self._gateway.backfills.cancel(instance, label)))

    @route("GET", "/webhook/list")
    @describes(_TAG, within_reach(Right.READ), {200: responses.RegistrationPage}, query=(TAGS, *_LIST_QUERY))
    async def list_all(self) -> Response:
        """List the registrations within the key's reach, sorted by instance and label, page by page.

        For a key that reaches everything, those of the configuration (`global_webhooks`) come first; their
        instance is `*`. With a `tag`, these are missing: they belong to no instance.
        """
        given = {name: value for name, value in request.args.items() if value}  # empty means left out
        limit, after = read_limit(given), _after()
        await reserve(LIST)
        names = names_within(self._gateway.registry, current_principal(), read_tags())
        return await self._page(self._gateway.registrations.page(after, limit + 1, names), limit)

    @route("GET", "/webhook/list/<instance>")
    @describes(_TAG, Right.READ, {200: responses.RegistrationPage}, query=_LIST_QUERY[:1])
    async def list_of_instance(self, instance: str) -> Response:
        """List the instance's registrations, sorted by label."""
        self._gateway.instances.get(instance)
        label = _after()[1]
        await reserve(LIST)
        found = self._gateway.registrations.of_instance(instance)
        return await self._page([one for one in found if one.label > label], len(found))

    async def _page(self, found: list[Registration], limit: int) -> Response:
        shown = await first_of(found[:limit], self._present_listed)
        last = found[len(shown) - 1] if len(shown) < len(found) else None
        cursor = None if last is None else make_cursor((last.instance, last.label))
        return json_response(responses.RegistrationPage(shown, cursor))

    def _shown(self, instance: str, label: str) -> dict[str, object]:
        """Return the fields that ``find`` shows and ``set`` cannot change; of a new registration, their
        future values.
        """
        stored = self._gateway.registrations.find(instance, label)
        return {
            "instance": instance,
            "label": label,
            "paused": stored is not None and stored.is_paused,
            "state": "active" if stored is None else state_of(stored)[0],
        }

    def _answer(self, stored: StoredRegistration, warnings: list[str], status: int) -> Response:
        shown = self._present(stored.registration, [*warnings, *stored.warnings])
        found, since = stored.missed, stored.registration.disabled_at
        if found is not None and since is not None:
            missed = MissedCount(count=found.count, since=rfc3339(since), complete=found.is_complete)
            shown = msgspec.structs.replace(shown, missed=missed)
        if stored.job is None:
            return json_response(shown, status)
        return json_response(msgspec.structs.replace(shown, job=stored.job.id), 202)

    def _present(self, stored: Registration, warnings: list[str]) -> responses.Registration:
        gateway = self._gateway
        instance = gateway.instances.get(stored.instance)
        return present_registration(
            stored, Showing(instance.id, gateway.catalog, gateway.hooks.secret_options, warnings)
        )

    def _present_listed(self, stored: Registration) -> responses.ListedRegistration:
        gateway = self._gateway
        instance = gateway.instances.find(stored.instance)
        instance_id = instance.id if instance else GLOBAL_INSTANCE
        return present_listed_registration(
            stored, Showing(instance_id, gateway.catalog, gateway.hooks.secret_options)
        )


def _after() -> tuple[str, str]:
    """Return the instance and label behind which the page that is asked for begins."""
    given = request.args.get("cursor")
    match read_cursor(given) if given else ["", ""]:
        case [str(instance), str(label)]:
            return instance, label
    raise wrong_cursor()


def _backfilled(job: Job) -> responses.Backfilled:
    return responses.Backfilled(backfilled=job.done, job=job.id if job.is_running else UNSET)
