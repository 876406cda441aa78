"""How a list says that a node of the fleet has not answered."""

from __future__ import annotations

from collections.abc import Sequence

from quart import Response

from hookgw.records.fleet import SILENT_NODES

SILENT_HEADER = {SILENT_NODES: "The nodes of a fleet that did not answer, separated by commas."}
"""What `describes` declares for a list that may name them."""


def name_silent(response: Response, nodes: Sequence[str]) -> Response:
    """Name the nodes that have not answered, if there are any, in a response; return the response."""
    if nodes:
        response.headers[SILENT_NODES] = ", ".join(nodes)
    return response
