"""The security headers of hookgw's HTML pages."""

from __future__ import annotations

import base64
import hashlib


def page_headers(*styles: str) -> dict[str, str]:
    """Return headers with which a page loads, runs and sends nothing, and cannot be framed.

    Links send no referrer. Every response also has ``x-content-type-options``, and over TLS
    ``strict-transport-security``; the server adds them.

    Args:
        styles: of the page's ``<style>`` elements. The browser ignores any other style.
    """
    digests = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles]
    sources = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return {
        "content-security-policy": f"default-src 'none'; style-src {sources}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "x-frame-options": "DENY",  # for browsers that do not know frame-ancestors
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


def manual_headers() -> dict[str, str]:
    """Return headers with which a page loads and calls only its own gateway; nothing inline runs or shows."""
    policy = (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page_headers() | {"content-security-policy": policy}
