"""What a browser may do with a page of hookgw's: nearly nothing."""

from __future__ import annotations

import base64
import hashlib


def page_headers(*styles: str) -> dict[str, str]:
    """The headers of a page: nothing is loaded, run, sent or framed; links tell nobody where they stand.

    That the type is not to be guessed stands on every answer, and ``strict-transport-security`` where
    hookgw speaks TLS itself.

    Args:
        styles: the contents of the page's ``<style>`` elements. No others count.
    """
    sources = " ".join(f"'sha256-{_digest(style)}'" for style in styles) or "'none'"
    return {
        "content-security-policy": f"default-src 'none'; style-src {sources}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
