"""``/figures``: what became of events and deliveries over time."""

from __future__ import annotations

from quart import Response, request

from hookgw.core.access import check_global
from hookgw.kernel.errors import Invalid
from hookgw.operations import responses
from hookgw.operations.present import present_series
from hookgw.records.api_keys import Right
from hookgw.records.figures import Span
from hookgw.records.registrations import Registration
from hookgw.records.tags import TAG_PART, parse_tags
from hookgw.web.auth import current_principal
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes, filter_of
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route

_SPAN = filter_of(
    "span",
    "How far back the figures go: `1h`, `24h`, `7d` or `30d`.",
    # No enum: clients' generators make names of its values, and these begin with digits.
    {"type": "string", "pattern": f"^({'|'.join(Span)})?$", "default": Span.DAY},
)
_TAG = filter_of(
    "tag",
    "Only of instances while they carried this tag, as `name=value`.",
    {"type": "string", "pattern": f"^({TAG_PART}={TAG_PART})?$"},
)
_WEBHOOK = Parameter("webhook", "Only of the webhook with this label.", {"type": "string"})


class FigureRoutes(RouteGroup):
    @route("GET", "/figures/find")
    @describes(
        "Operation",
        within_reach(Right.READ),
        {200: responses.FigureSeries},
        query=(_SPAN, _TAG, _WEBHOOK),
        errors=(404,),
    )
    async def of_all(self) -> Response:
        """Count what became of events and deliveries over time.

        A key that does not reach everything gets the sum of its instances as they are now, without webhooks
        of the configuration; of more than 200 instances, it gets the figures of the tag that it is for. With
        `webhook`, the figures of a webhook of the configuration, for a key that reaches everything.
        """
        principal, span = current_principal(), _span()
        tags = parse_tags([request.args.get("tag", "")])
        if label := request.args.get("webhook"):
            check_global(principal)
            return await self._of_webhook(self._gateway.registrations.configured(label), span)
        return json_response(present_series(await self._gateway.figures.within(principal, tags, span)))

    @route("GET", "/figures/find/<instance>")
    @describes("Operation", Right.READ, {200: responses.FigureSeries}, query=(_SPAN, _WEBHOOK), errors=(404,))
    async def of_instance(self, instance: str) -> Response:
        """Count what became of an instance's events, and of deliveries to its own webhooks, over time."""
        span = _span()
        if label := request.args.get("webhook"):
            if self._gateway.registrations.find(instance, label) is None:
                await self._gateway.refresh.catch_up()  # another node may have made it a moment ago
            return await self._of_webhook(self._gateway.registrations.get(instance, label), span)
        self._gateway.instances.get(instance)
        return json_response(present_series(await self._gateway.figures.of_instance(instance, span)))

    async def _of_webhook(self, registration: Registration, span: Span) -> Response:
        return json_response(present_series(await self._gateway.figures.of_webhook(registration.id, span)))


def _span() -> Span:
    given = request.args.get("span") or Span.DAY
    if given not in [*Span]:
        raise Invalid.of(
            "figures.span",
            "span must be one of {choices}, not {span!r}.",
            choices=", ".join(Span),
            span=given[:64],
        )
    return Span(given)
