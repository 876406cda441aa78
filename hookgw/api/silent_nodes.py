"""How a list says that a node of the fleet has not answered."""

from __future__ import annotations

from collections.abc import Sequence

from quart import Response

SILENT_NODES = "hookgw-silent-nodes"
"""The header that names them. Lists of other gateways have no place for it in their bodies."""


def name_silent(response: Response, nodes: Sequence[str]) -> Response:
    """Name the nodes that have not answered, if there are any, in a response; return the response."""
    if nodes:
        response.headers[SILENT_NODES] = ", ".join(nodes)
    return response
