"""Imports what would import rich, which the server does not use: it takes 25 ms and 2.5 MiB.

structlog and httpx import rich where it is installed, for tracebacks and for a command of their own.
"""

from __future__ import annotations

import sys

if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that there is none
    import httpx  # noqa: F401
    import structlog  # noqa: F401

    del sys.modules["rich"]
