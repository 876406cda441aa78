"""The MCP server: tools for assistants, with the rights of an API key.

:mod:`~hookgw.mcp.tools` has the tools, each a few calls of the HTTP API. :mod:`~hookgw.mcp.server` gives them
to the SDK. Over stdio, ``hookgw mcp`` calls a gateway; over HTTP, ``/mcp`` of a gateway calls itself.
"""
