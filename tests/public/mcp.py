"""The public names of ``hookgw.mcp``."""

from __future__ import annotations

from hookgw.mcp.loading import *
from hookgw.mcp.tools import *
