"""A plugin's long-lived code that fails, as a plain record. No I/O."""

from __future__ import annotations

import msgspec


class FailingTask(msgspec.Struct, frozen=True, kw_only=True):
    """Code of a plugin that failed, and has not run for long since.

    Attributes:
        plugin, hook: what failed.
        instance: the connector's instance; ``None`` for a background task.
        reason: why it failed last.
        failures: how often it failed in a row.
        forget_at: from this time on (Trio's clock) it counts as recovered.
    """

    plugin: str
    hook: str
    instance: str | None
    reason: str
    failures: int
    forget_at: float
