"""When Python looks for garbage."""

from __future__ import annotations

import gc

GC_THRESHOLD = 50_000
"""New objects between two runs of the garbage collector; Python's default is 700 or 2,000."""


def tune_garbage_collector() -> None:
    # hookgw creates hardly any cycles, but each lane at work keeps about a hundred objects, and each run over
    # an older generation walks the objects of all lanes: with 5,000 lanes, a quarter of the cost of an event.
    _, *older = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *older)
