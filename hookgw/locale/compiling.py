"""Compiles catalogues when hookgw is packaged, and in a checkout when a language is first asked for.

It imports nothing of hookgw, because a build has none of hookgw's dependencies.
"""

from __future__ import annotations

import io

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po


def compiled(source: bytes) -> bytes:
    """Return the ``.mo`` of a ``.po``, without fuzzy and obsolete entries."""
    out = io.BytesIO()
    write_mo(out, read_po(io.BytesIO(source), abort_invalid=True))
    return out.getvalue()
