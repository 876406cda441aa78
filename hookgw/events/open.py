"""Events: what accepts and erases them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hookgw.core.open import Core
from hookgw.events.accept import EventIntake, SeesStates
from hookgw.events.erasure import Erasures
from hookgw.fleet.lane_pauses import LanePauses
from hookgw.records.events import Event
from hookgw.records.instances import Instance


class Events(msgspec.Struct, frozen=True, eq=False):
    intake: EventIntake
    erasures: Erasures


def open_events(
    core: Core,
    states: SeesStates,
    accepted: Callable[[Sequence[Event]], None],
    lane_pauses: LanePauses,
    passes_on_messages: Callable[[Instance], bool],
) -> Events:
    intake = EventIntake(
        core.settings.events,
        core.catalog,
        core.registry,
        core.outbox,
        core.dispatcher,
        states,
        core.hooks,
        core.metrics,
        core.settings.server.public_url,
        core.refresh.catch_up,
        accepted,
    )
    erasures = Erasures(
        core.registry,
        core.store,
        core.dispatcher,
        core.pending,
        lane_pauses,
        core.jobs,
        core.audit,
        core.clock,
        passes_on_messages,
    )
    return Events(intake, erasures)
