"""Where this hookgw was installed from."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any
from urllib.parse import unquote, urlsplit

IS_BINARY = getattr(sys, "frozen", False)


def installed_from() -> str:
    """Return the source that pip installed hookgw from, for another ``pip install``; empty for an index."""
    if IS_BINARY:
        return ""
    try:
        found: Any = json.loads(metadata.distribution("hookgw").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    url = found.get("url", "")
    if "vcs_info" in found:
        return f"{found['vcs_info']['vcs']}+{url}"
    return unquote(urlsplit(url).path) if url.startswith("file:") else ""
