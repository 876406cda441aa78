"""Imports structlog and httpx without what they import besides, which a start would wait for.

rich and pygments, where they are installed, are for tracebacks and a command of httpx: 25 ms and 2.5 MiB.
asyncio is for methods of structlog that a program of asyncio calls: 9 ms.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

if not {"rich", "pygments", "asyncio"} & sys.modules.keys():
    later = ModuleType("asyncio")
    later.__getattr__ = lambda name: getattr(import_module("asyncio"), name)  # type: ignore[method-assign]
    sys.modules["asyncio"] = later
    # Python's way to say that there is none.
    sys.modules["rich"] = sys.modules["pygments"] = None  # type: ignore[assignment]
    import httpx  # noqa: F401
    import structlog  # noqa: F401

    del sys.modules["rich"], sys.modules["pygments"], sys.modules["asyncio"]
