"""A failing task of a plugin, as a plain record. No I/O."""

from __future__ import annotations

import msgspec


class FailingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A connector's run or a background task that failed recently.

    Attributes:
        instance: the connector's instance; ``None`` for a background task.
        reason: of the last failure.
        failures: how often it failed in a row.
        forget_at: from this time on (Trio's clock) it counts as recovered.
    """

    plugin: str
    hook: str
    instance: str | None
    reason: str
    failures: int
    forget_at: float
