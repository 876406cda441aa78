"""The limits of one emit, from the settings. No I/O."""

from __future__ import annotations

from hookgw.config.settings import Settings
from hookgw.events.requests import EmitLimits


def emit_limits(settings: Settings) -> EmitLimits:
    """Return the limits of one request with events."""
    return EmitLimits(
        max_data=settings.events.max_data,
        max_single=settings.server.max_body,
        max_events=settings.server.max_batch_events,
        max_values=settings.events.max_values,
    )
