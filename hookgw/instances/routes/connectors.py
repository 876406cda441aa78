"""``/connector``: what instances can be connected with."""

from __future__ import annotations

from quart import Response

from hookgw.instances import responses
from hookgw.instances.connectors.calls import calls_of
from hookgw.instances.connectors.server_search import FoundServer
from hookgw.records.api_keys import Right
from hookgw.web.openapi.describe import describes
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route


class ConnectorRoutes(RouteGroup):
    @route("GET", "/connector/list")
    @describes("Instances", Right.INSTANCES, {200: list[responses.Connector]})
    async def list_connectors(self) -> Response:
        """List the connectors with the calls that each one answers, and the options of its instances."""
        integrations = self._gateway.settings.instances.integrations
        return json_response(
            [
                responses.Connector(
                    name=one.name,
                    plugin=one.plugin,
                    calls=calls_of(one),
                    takes_requests="ingest" in one.methods,
                    integrations=sorted(name for name, meant in integrations.items() if meant == one.name),
                    options_schema=one.options_schema,
                )
                for one in self._gateway.instances.all_connectors()
            ]
        )

    @route("POST", "/connector/find")
    @describes("Instances", Right.OPERATE, {200: list[FoundServer]})
    async def find_servers(self) -> Response:
        """Look for servers of connectors beside the gateway.

        The gateway asks a few fixed addresses, and no others: port 3000 of `waha`, `gowa` and 127.0.0.1, and
        port 8080 of `evolution` and 127.0.0.1. Each gets at most two requests, without credentials, and
        a second. The body is ignored.
        """
        return json_response(await self._gateway.server_search.find())
