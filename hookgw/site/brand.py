"""The operator's name, logo and colour on the pages. A file is read once, at start.

Pages set no style themselves, so the colour is in a stylesheet of its own, ``brand.css``. Each theme gets the
shade nearest to the colour whose contrast with every ground of the theme is at least 4.5:1 (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hookgw.config.brand import is_url, origin_of, parse_colour
from hookgw.config.settings import BrandSettings
from hookgw.kernel.errors import StartError
from hookgw.site.assets import Asset

Colour = tuple[int, int, int]

LARGEST_LOGO = 256 * 1024
"""Bytes: each new visitor loads it."""
CONTRAST = 4.5
_STEPS = 64
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)
_GROUND = re.compile(
    rb"--(?:[a-z]+-)?(?:ground|surface|raised): (?:light-dark\((#[0-9a-f]+), )?(#[0-9a-f]+)\b"
)
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"(\xef\xbb\xbf)?\s*<(svg|\?xml|!--|!DOCTYPE svg)"), "image/svg+xml"),
)
_LOGO_STYLE = ".brand { display: inline-flex; align-items: center; gap: .6rem; }\n"
_LOGO_STYLE += ".brand img { height: 1.75rem; max-width: 12rem; object-fit: contain; }\n"
# Charts say how deliveries ended: in a red brand, delivered ones would look dead.
_OF_STATES = ":root { --done: var(--good); }\n"


class Brand(NamedTuple):
    """What pages show of the operator.

    Attributes:
        name: empty for hookgw.
        logo: an asset's name, or a URL; empty for none.
        logo_origin: of that URL, for the Content-Security-Policy; empty for none.
        assets: further files that pages load.
        version: changes with their content; empty without any.
    """

    name: str
    logo: str
    logo_origin: str
    assets: dict[str, Asset]
    version: str


def load_brand(settings: BrandSettings, stylesheet: bytes) -> Brand:
    """Return what pages show of the operator.

    Args:
        stylesheet: the dashboard's; it has the grounds of both themes.

    Raises:
        StartError: the logo's file cannot be read, or is no picture.
    """
    assets, sheet, logo, origin = {}, "", "", ""
    if settings.logo and is_url(settings.logo):
        logo, origin = settings.logo, origin_of(settings.logo)
    elif settings.logo:
        logo = "logo"
        assets[logo] = read_logo(settings.logo)
    if logo:
        sheet += _LOGO_STYLE
    if settings.colour is not None:
        colour = parse_colour(settings.colour)
        light, dark = grounds(stylesheet)
        of_light = _hex(shade_of(colour, light, _BLACK)), _hex(_WHITE)
        of_dark = _hex(shade_of(colour, dark, _WHITE)), _hex(_BLACK)
        # The last rule, which older browsers ignore, follows a theme that a page sets itself.
        both = [f"light-dark({one}, {other})" for one, other in zip(of_light, of_dark, strict=True)]
        sheet += _root(*of_light)
        sheet += f"@media (prefers-color-scheme: dark) {{ {_root(*of_dark)} }}\n"
        sheet += f"@supports (color: light-dark(red, red)) {{ {_root(*both)} }}\n"
        sheet += _OF_STATES
    if sheet:
        assets["brand.css"] = Asset(sheet.encode(), "text/css; charset=utf-8")
    content = b"".join(assets[name].content for name in sorted(assets))
    version = hashlib.sha256(content).hexdigest()[:8] if assets else ""
    return Brand(settings.name or "", logo, origin, assets, version)


def read_logo(name: str) -> Asset:
    """Return the picture in a file; raise ``StartError``."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(LARGEST_LOGO + 1)
    except OSError as error:
        reason = error.strerror or error
        raise StartError(f"dashboard.brand.logo: {name} cannot be read: {reason}.") from error
    if len(content) > LARGEST_LOGO:
        raise StartError(
            f"dashboard.brand.logo: {name} has more than {LARGEST_LOGO // 1024} KiB: make it smaller."
        )
    # By the content: what a browser is told to show as a picture must be one.
    found = next((kind for signature, kind in _SIGNATURES if signature.match(content)), None)
    if found is None or (found == "image/svg+xml" and b"<svg" not in content):
        raise StartError(f"dashboard.brand.logo: {name} is no SVG, PNG, JPEG, WebP or GIF.")
    return Asset(content, found)


def grounds(stylesheet: bytes) -> tuple[list[Colour], list[Colour]]:
    """Return the colours of a stylesheet on which text stands: of the light theme, and of the dark one."""
    light: list[Colour] = []
    dark: list[Colour] = []
    first, _, second = stylesheet.partition(b"prefers-color-scheme: dark")
    for part, alone in ((first, light), (second, dark)):
        for of_light, other in _GROUND.findall(part):
            if of_light:
                light.append(parse_colour(of_light.decode()))
            (dark if of_light else alone).append(parse_colour(other.decode()))
    return light, dark


def shade_of(colour: Colour, others: Iterable[Colour], towards: Colour) -> Colour:
    """Return the shade nearest to a colour, on the way to another one, that has enough contrast with all."""
    others = list(others)
    for step in range(_STEPS + 1):
        red, green, blue = (
            round(own + (end - own) * step / _STEPS) for own, end in zip(colour, towards, strict=True)
        )
        if all(contrast((red, green, blue), other) >= CONTRAST for other in others):
            return red, green, blue
    return towards


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (part / 255 for part in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _root(accent: str, on_accent: str) -> str:
    return f":root {{ --link: {accent}; --accent: {accent}; --on-accent: {on_accent}; }}\n"


def _hex(colour: Colour) -> str:
    return "#" + bytes(colour).hex()
