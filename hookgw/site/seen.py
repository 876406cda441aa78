"""Forms that store all that they show: what was changed while a form was open must not be undone unseen.

A hidden field has a digest of what the form showed. The change that stores the form compares it with what is
stored by then. A program that sends no such field stores what it sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from hookgw.kernel.errors import Conflict
from hookgw.site.site import Form

T = TypeVar("T")
FIELD = "seen"
"""The name of the hidden field."""


def seen(shown: Any, form: Form | None = None) -> str:
    """Return the value of the hidden field.

    Args:
        shown: the values of the form, as they are stored.
        form: that is shown again, with what was entered. It still shows what it showed at first.
    """
    given = form.get(FIELD) if form is not None else ""
    return given or hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()[:16]


def unchanged(form: Form, shown_of: Callable[[T], Any]) -> Callable[[T], None]:
    """Return the check of a change that stores a form: it raises ``Conflict`` if the form is stale.

    Args:
        shown_of: returns the values that the form would show, of what is stored now.
    """

    def check(stored: T) -> None:
        given = form.get(FIELD)
        if given and given != seen(shown_of(stored)):
            form.drop(FIELD)  # its reader is told: who saves once more means it
            raise Conflict.of(
                "form.changed_meanwhile",
                "Nothing was saved: this was changed while the form was open, by somebody else or by hookgw. "
                "Open the page again to see it, or save once more to store what you have entered.",
            )

    return check
