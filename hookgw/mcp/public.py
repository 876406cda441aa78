"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.mcp.loading import *
from hookgw.mcp.tools import *
