"""``/delivery`` and ``/lane``: what became of the events, and sending them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET
from quart import Blueprint, Response, request

from hookgw.api import responses
from hookgw.api.auth import principal_here
from hookgw.api.openapi.describe import Parameter, describes, json_body
from hookgw.api.present import present_delivery, present_lane, present_report
from hookgw.api.redact import redact, redact_report
from hookgw.api.request_body import json_response, read_json
from hookgw.models.clock import parse_rfc3339
from hookgw.models.deliveries import DeliveryState, parse_delivery_id
from hookgw.models.errors import Invalid, NotFound
from hookgw.models.registrations import Registration
from hookgw.parsing import parse_replay
from hookgw.parsing.schema_parts import TIME_SCHEMA
from hookgw.store import DeliveryQuery, DeliverySummary

if TYPE_CHECKING:
    from hookgw.gateway.gateway import Gateway

T = TypeVar("T")

DEFAULT_PAGE = 100
LONGEST_PAGE = 1000


TAG = "Deliveries"
_filter = partial(Parameter, place="query", may_be_empty=True)
QUERY = (
    _filter("state", "Only those in this state.", {"enum": [*DeliveryState]}),
    _filter("kind", "Only those of this event kind.", {"$ref": "#/components/schemas/AnyKindName"}),
    _filter("since", "Only those accepted at this time or later.", TIME_SCHEMA),
    _filter("until", "Only those accepted before this time.", TIME_SCHEMA),
    _filter("cursor", "The cursor of the page before.", {"type": "string", "pattern": "^dlv_[0-9]{1,18}$"}),
    _filter(
        "limit",
        "How many are on a page.",
        {"type": "integer", "minimum": 1, "maximum": LONGEST_PAGE, "default": DEFAULT_PAGE},
    ),
)
REPLAY_BODY = json_body(
    "ReplayRequest",
    the_dead_letters_of_two_hours={"since": "2h"},
    everything_of_a_time={
        "since": "2026-11-20T12:00:00Z",
        "until": "2026-11-20T13:00:00Z",
        "state": "all",
        "kinds": ["MESSAGES_UPSERT"],
    },
)


class DeliveryRoutes:
    """The handlers, over one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        """The routes."""
        blueprint = Blueprint("deliveries", __name__)
        blueprint.add_url_rule("/delivery/list/<instance>", view_func=self.list_deliveries)
        blueprint.add_url_rule("/delivery/find/<instance>/<name>", view_func=self.find)
        for path, view in (("resend/<instance>/<name>", self.resend), ("replay/<instance>", self.replay)):
            blueprint.add_url_rule(f"/delivery/{path}", view_func=view, methods=["POST"])
        blueprint.add_url_rule("/lane/list", view_func=self.lanes)
        return blueprint

    @describes(TAG, {200: responses.DeliveryPage}, query=QUERY)
    async def list_deliveries(self, instance: str) -> Response:
        """A page of an instance's deliveries, the newest first."""
        self._gateway.instances.get(instance)
        query = self._query(instance)
        found = await self._gateway.store.list_deliveries(query)
        known = self._registrations(instance)
        return json_response(
            responses.DeliveryPage(
                deliveries=[self._present(one, known) for one in found],
                cursor=found[-1].id if len(found) == query.limit else None,
            )
        )

    def _query(self, instance: str) -> DeliveryQuery:
        return DeliveryQuery(
            instance=instance,
            state=_argument("state", _state),
            kind=_argument("kind", self._kind),
            since=_argument("since", _moment),
            until=_argument("until", _moment),
            cursor=_argument("cursor", _cursor),
            limit=_argument("limit", _limit) or DEFAULT_PAGE,
        )

    def _kind(self, text: str) -> str:
        return self._gateway.catalog.resolve(text, "kind").name

    @describes(TAG, {200: responses.Report})
    async def find(self, instance: str, name: str) -> Response:
        """One delivery with every attempt, by its own id or its event's."""
        instance_id = self._gateway.instances.get(instance).id
        report = await self._gateway.store.find_delivery(instance, name)
        if report is None:
            raise NotFound(f"The instance {instance!r} has no delivery {name[:64]!r}.")
        if not principal_here().is_global:
            report = redact_report(report)
        registration = self._registrations(instance).get(report.summary.registration)
        return json_response(present_report(report, registration, instance_id, self._gateway.catalog))

    @describes(TAG, {202: responses.Delivery}, errors=(409,))
    async def resend(self, instance: str, name: str) -> Response:
        """Send one again, at the end of its lane."""
        summary = await self._gateway.deliveries.resend(instance, name)
        return json_response(self._present(summary, self._registrations(instance)), 202)

    @describes(TAG, {202: responses.Replayed}, body=REPLAY_BODY, errors=(409,))
    async def replay(self, instance: str) -> Response:
        """Send many again, in their original order.

        It goes on to the end also where the client does not wait for it.
        """
        self._gateway.instances.get(instance)
        body = await read_json(self._limit)
        asked, warnings = parse_replay(body, self._gateway.catalog, now=self._gateway.clock.wall())
        replayed = await self._gateway.deliveries.replay(instance, asked)
        return json_response(responses.Replayed(replayed=replayed, warnings=warnings or UNSET), 202)

    @staticmethod
    def _present(summary: DeliverySummary, known: Mapping[str, Registration]) -> responses.Delivery:
        seen = summary if principal_here().is_global else redact(summary)
        return present_delivery(seen, known.get(summary.registration))

    def _registrations(self, instance: str) -> dict[str, Registration]:
        return {one.id: one for one in self._gateway.registrations.of_instance(instance)}

    @describes("Lanes", {200: list[responses.Lane]})
    async def lanes(self) -> Response:
        """All lanes that have something to do, or had a while ago."""
        now = self._gateway.clock.steady()
        by_id = self._gateway.registrations.by_id
        lanes = self._gateway.lanes()
        return json_response([present_lane(lane, by_id(lane.registration), now) for lane in lanes])


def _argument(name: str, read: Callable[[str], T]) -> T | None:
    """A part of the query; ``None`` where it is left out or empty."""
    text = request.args.get(name)
    return read(text) if text else None


def _state(text: str) -> DeliveryState:
    try:
        return DeliveryState(text)
    except ValueError:
        raise Invalid(f"state must be one of {', '.join(DeliveryState)}, not {text[:64]!r}.") from None


def _moment(text: str) -> float:
    try:
        return parse_rfc3339(text.replace(" ", "+"))
    except (ValueError, OverflowError):
        raise Invalid(f"{text[:64]!r} is no RFC 3339 time such as 2026-11-20T12:00:00Z.") from None


def _cursor(text: str) -> int:
    seq = parse_delivery_id(text)
    if seq is None:
        raise Invalid("cursor must be the cursor of the page before.")
    return seq


def _limit(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else 0
    if not 1 <= number <= LONGEST_PAGE:
        raise Invalid(f"limit must be a whole number from 1 to {LONGEST_PAGE}.")
    return number
