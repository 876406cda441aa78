"""The security headers of hookgw's HTML pages."""

from __future__ import annotations


def page_headers() -> dict[str, str]:
    """Return headers with which a page loads, runs and sends nothing, and cannot be framed.

    The browser ignores the page's styles, too. Links send no referrer. Every response also has
    ``x-content-type-options``, and over TLS ``strict-transport-security``; the server adds them.
    """
    return {
        "content-security-policy": "default-src 'none'; style-src 'none'; base-uri 'none'; "
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
