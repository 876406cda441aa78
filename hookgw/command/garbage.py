"""When Python looks for garbage."""

from __future__ import annotations

import gc

GC_THRESHOLD = 50_000
"""New objects between two runs of the garbage collector; Python's default is 700 or 2,000."""
_IMPORTED = 150_000
"""More objects than the imports of a server make."""


def spare_imports() -> None:
    """Let no run walk what the imports of a server make: a fifth of the start went into such runs."""
    _set_threshold(_IMPORTED)


def tune_garbage_collector() -> None:
    """Exempt what the imports made, which stays, and look for garbage rarely."""
    gc.freeze()  # it counts new objects from 0 on, too
    # hookgw creates hardly any cycles, but each lane at work keeps about a hundred objects, and each run over
    # an older generation walks the objects of all lanes: with 5,000 lanes, a quarter of the cost of an event.
    _set_threshold(GC_THRESHOLD)


def _set_threshold(objects: int) -> None:
    _, *older = gc.get_threshold()
    gc.set_threshold(objects, *older)
