"""``/diagnosis``: why nothing arrives."""

from __future__ import annotations

from quart import Response

from hookgw.core.access import names_within
from hookgw.operations import responses
from hookgw.operations.diagnosis import diagnose, diagnose_all
from hookgw.records.api_keys import Right
from hookgw.web.auth import current_principal
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes
from hookgw.web.request_body import json_response
from hookgw.web.route_group import RouteGroup, route


class DiagnosisRoutes(RouteGroup):
    @route("GET", "/diagnosis")
    @describes("Operation", within_reach(Right.READ), {200: responses.Diagnosis})
    async def of_all(self) -> Response:
        """List the problems of instances and webhooks within the key's reach, and the state of the storage.

        A key that reaches everything also sees those of plugins and nodes.
        """
        names = names_within(self._gateway.registry, current_principal())
        return json_response(await diagnose_all(self._gateway, names))

    @route("GET", "/diagnosis/<instance>")
    @describes("Operation", Right.READ, {200: responses.Diagnosis})
    async def of_instance(self, instance: str) -> Response:
        """Find out why nothing of an instance arrives.

        hookgw follows the way of an event: connection, last event, webhooks, the head of each lane with its
        last answer, then the host, the address and the certificate of each receiver, to which it connects
        without sending anything. That takes up to 15 s.
        """
        is_operator = current_principal().is_global
        return json_response(await diagnose(self._gateway, instance, is_operator=is_operator))
