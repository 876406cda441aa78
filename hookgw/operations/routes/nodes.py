"""``/node``: the nodes of a fleet."""

from __future__ import annotations

from quart import Response

from hookgw.operations import responses
from hookgw.records.api_keys import Right
from hookgw.web.openapi.describe import describes
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route


class NodeRoutes(RouteGroup):
    @route("GET", "/node/list")
    @describes("Operation", Right.OPERATE, {200: list[responses.Node]})
    async def list_nodes(self) -> Response:
        """List the nodes that share the storage, and how many shards each holds.

        With a data file there is one.
        """
        this = self._gateway.node
        return json_response(
            [
                responses.Node(
                    node=node.name,
                    url=node.url or None,
                    shards=shards,
                    heartbeat_age=round(node.heartbeat_age, 3),
                    leaving=node.is_leaving,
                    is_here=node.name == this.name,
                )
                for node, shards in this.view.counted()
            ]
        )
