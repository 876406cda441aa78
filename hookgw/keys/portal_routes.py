"""``/portal/link``: makes a link that opens the dashboard once, without a key."""

from __future__ import annotations

from quart import Response

from hookgw.kernel.times import rfc3339
from hookgw.keys import responses
from hookgw.keys.portal_fields import parse_portal_request
from hookgw.keys.portal_url import portal_url
from hookgw.records.api_keys import Right
from hookgw.web.auth import current_holder
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.request_body import json_response, read_json
from hookgw.web.route_group import RouteGroup, route

_BODY = json_body(
    "PortalLinkRequest",
    customer={"tags": {"tenant": "acme"}, "rights": ["read", "webhooks", "replay"], "expires": "15m"},
    one_account={"instances": ["loja1"], "returnUrl": "https://acme.example/settings"},
)


class PortalRoutes(RouteGroup):
    @route("POST", "/portal/link")
    @describes("Keys", within_reach(Right.KEYS), {201: responses.PortalLink}, body=_BODY, errors=(404, 409))
    async def link(self) -> Response:
        """Make a link that opens the dashboard once, without a key.

        It shows the instances with all of `tags`, or those of `instances`, as far as the caller's key reaches
        them. Its session lasts for at most 8 hours, and no longer than the key can do what the link gives.
        """
        url = portal_url(self._gateway.settings)
        asked = parse_portal_request(await read_json(self._limit))
        token, ends_at = await self._gateway.portal.make(current_holder(), asked)
        return json_response(responses.PortalLink(url=f"{url}#{token}", expires_at=rfc3339(ends_at)), 201)
