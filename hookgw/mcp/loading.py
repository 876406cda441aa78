"""Imports the SDK when it is first used: it takes a second, and is an extra."""

from __future__ import annotations

from types import ModuleType

from hookgw.kernel.errors import NotSupported
from hookgw.kernel.sentences import Sentence

MISSING = Sentence("mcp.missing", "This needs the extra mcp: pip install 'hookgw[mcp]'")


def load_server() -> ModuleType:
    """Return :mod:`hookgw.mcp.server`; raise ``NotSupported`` if the SDK is not installed. This blocks."""
    try:
        from hookgw.mcp import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise NotSupported(MISSING) from error
    return server
