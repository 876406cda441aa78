"""The MCP server: tools for assistants, with the rights of an API key.

:mod:`~hookgw.mcp.tools` has the tools, each a few calls of the HTTP API. :mod:`~hookgw.mcp.server` gives them
to the SDK. Over stdio, ``hookgw mcp`` calls a gateway; over HTTP, ``/mcp`` of a gateway calls itself.
"""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.mcp.public import *
else:
    __getattr__ = public_names(__name__)
