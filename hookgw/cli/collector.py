"""Python's garbage collector, set for a server."""

from __future__ import annotations

import gc

YOUNGEST = 50_000
"""New objects that may come about before the collector looks at them; by default it is 700 or 2,000."""


def tune_garbage_collector() -> None:
    """Let the collector of cycles look less often.

    hookgw makes hardly any cycles, but every lane that works keeps some hundred objects, and each look at
    an older generation walks those of all lanes: with 5,000 of them at work that was a quarter of the
    cost of an event (see ``docs/performance.md``).
    """
    _, *older = gc.get_threshold()
    gc.set_threshold(YOUNGEST, *older)
