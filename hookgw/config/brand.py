"""The values of ``dashboard.brand``. No I/O."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hookgw.config.cors_origins import parse_origin

LONGEST_BRAND = 64
"""Characters of the name."""
_COLOUR = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)
_URL = re.compile(r"https://[!-~]{1,2040}", re.ASCII | re.IGNORECASE)


def parse_colour(text: str) -> tuple[int, int, int]:
    """Return red, green and blue of ``#rgb`` or ``#rrggbb``; raise ``ValueError``."""
    if _COLOUR.fullmatch(text) is None:
        raise ValueError(f"must be a colour such as #0b6b57, not {text[:40]!r}.")
    digits = text[1:] if len(text) == 7 else "".join(one * 2 for one in text[1:])
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


def check_logo(text: str) -> None:
    """Check the name of a file, or an https URL; raise ``ValueError``."""
    if is_url(text):
        origin_of(text)
    elif not text.strip() or "\0" in text:
        raise ValueError("must be a file or an https URL.")


def is_url(logo: str) -> bool:
    # One letter before the colon is a drive of Windows.
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", logo) is not None


def origin_of(logo: str) -> str:
    """Return the origin of a logo's URL, for the Content-Security-Policy; raise ``ValueError``."""
    wrong = "must be a file, or an https URL without a user and a fragment."
    if _URL.fullmatch(logo) is None:
        raise ValueError(wrong)
    try:
        parts = urlsplit(logo)
        if parts.fragment:
            raise ValueError(wrong)
        return parse_origin(f"https://{parts.netloc}")
    except ValueError:
        raise ValueError(wrong) from None
