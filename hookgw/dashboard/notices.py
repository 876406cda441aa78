"""The sentences that a page shows after a form has changed something.

The redirect after a form carries the name of a notice, never its text: a link must not be able to put words
into the dashboard's mouth.
"""

from __future__ import annotations

NOTICES = {
    "logged_out": "You are logged out.",
    "saved": "Saved.",
}
