"""Names the nodes of the fleet that have not answered, in a response."""

from __future__ import annotations

from collections.abc import Sequence

from quart import Response

from hookgw.records.fleet import SILENT_NODES

SILENT_HEADER = {SILENT_NODES: "The nodes of a fleet that did not answer, separated by commas."}
"""What `describes` declares for a list that may name them."""


def name_silent(response: Response, nodes: Sequence[str]) -> Response:
    if nodes:
        response.headers[SILENT_NODES] = ", ".join(nodes)
    return response
