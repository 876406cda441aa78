"""Shows event kinds as responses."""

from __future__ import annotations

from hookgw.events import responses
from hookgw.records.events import EventKind


def present_kind(kind: EventKind) -> responses.Kind:
    return responses.Kind(
        name=kind.name,
        dotted=kind.dotted_name,
        aliases=list(kind.aliases),
        meaning=kind.meaning,
        schema=kind.schema,
        example=kind.example,
        plugin=kind.plugin or None,
        operational=kind.operational,
    )
