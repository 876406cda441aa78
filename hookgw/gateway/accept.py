"""The way in: events are checked, addressed, and put on disk.

Nothing here waits for a receiver. What :meth:`EventIntake.accept` has returned for is on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import structlog
import trio

from hookgw.config.settings import EventsSettings
from hookgw.gateway.backlog_limits import LimitedOutbox
from hookgw.gateway.connectors.states import ConnectionStates
from hookgw.gateway.metrics import Metrics
from hookgw.gateway.registry import Registry
from hookgw.models.errors import Invalid
from hookgw.models.events import EVENT_ID, Catalog, Event, Receipt
from hookgw.models.lanes import lane_rule
from hookgw.models.payload_schemas import SchemaBook
from hookgw.plugins.hooks import Hooks
from hookgw.store import Append

logger = structlog.get_logger("hookgw.intake")

_NAMED_PROBLEMS = 100
"""How many problems of a batch are named, in an error or as warnings."""
_OBSERVERS_PATIENCE = 60.0
"""How long all observers of one call may take together, in seconds."""
_YEAR_10000 = 253_402_300_800.0


class EventIntake:
    """Takes events on behalf of the gateway; the arguments are the gateway's own parts."""

    def __init__(
        self,
        settings: EventsSettings,
        catalog: Catalog,
        registry: Registry,
        admission: LimitedOutbox,
        states: ConnectionStates,
        hooks: Hooks,
        metrics: Metrics,
        *,
        server_url: str | None,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._schemas = SchemaBook(catalog)
        self._registry = registry
        self._admission = admission
        self._emitted = frozenset(kind.name for kind in catalog if not kind.operational)
        self._states = states
        self._hooks = hooks
        self._metrics = metrics
        self._server_url = server_url

    async def accept(self, events: Sequence[Event], *, single: bool = False) -> Receipt:
        """Put events on disk, each addressed to the registrations that want it; all of them or none.

        ``single`` says that the one event is no batch: then what is said of it names no index.

        Raises:
            Invalid: an event breaks a rule; each message begins with its index.
            NotFound: an event's instance does not exist.
            Unavailable: the disk refused, or a limit of the backlog is reached.
            TooLarge: the events alone are over such a limit.
        """
        warnings = self._check(events, single)
        completed = [self._completed(event) for event in events]
        # A caller that is cancelled while this is written cannot take back what it asked for: it goes on
        # here all the same, without a checkpoint, so that observers and figures hear of it.
        fresh = await self._admission.append(lambda: [self._address(event) for event in completed])
        accepted = [event for event, is_fresh in zip(completed, fresh, strict=True) if is_fresh]
        self._count(accepted, len(events) - len(accepted))
        await self._tell(accepted)
        return Receipt(fresh, warnings)

    def _check(self, events: Sequence[Event], single: bool) -> list[str]:
        problems: list[str] = []
        warnings: list[str] = []
        for index, event in enumerate(events):
            problem = self._problem(event)
            if problem is not None:
                problems.append(problem if single else f"events[{index}]: {problem}")
            elif self._settings.validate != "off":
                place = "" if single else f"events[{index}]."
                warnings += (f"{place}{found}" for found in self._schemas.problems(event))
        if self._settings.validate == "strict":
            problems += warnings
        if problems:
            raise Invalid(*_first(problems))
        if warnings:
            logger.warning("payloads break their schema", count=len(warnings), first=warnings[0])
        return _first(warnings)

    def _problem(self, event: Event) -> str | None:
        if event.kind not in self._emitted:
            return self._not_emitted(event.kind)
        if not EVENT_ID.fullmatch(event.id):
            return "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."
        if len(event.data_json) > self._settings.max_data:
            return f"data has {len(event.data_json):,} bytes; at most {self._settings.max_data} are taken."
        if not 0 <= event.time < _YEAR_10000:
            return "time must be seconds since the epoch, before the year 10000."
        self._registry.instance(event.instance)
        return None

    def _not_emitted(self, kind: str) -> str:
        if kind in self._catalog:
            return f"{kind} is an operational event: hookgw alone raises it."
        return f"{kind!r} is no event kind of the catalog."

    def _address(self, event: Event) -> Append:
        self._registry.instance(event.instance)
        wanting = self._registry.wanting(event.instance, event.kind)
        return Append(event, tuple((r.id, lane_rule(r).lane(event)) for r in wanting))

    def _completed(self, event: Event) -> Event:
        """The event with what the gateway knows and its source did not say."""
        sender = event.sender
        if sender is None:
            sender = self._states.sender(event.instance)
        server_url = event.server_url or self._server_url
        if sender == event.sender and server_url == event.server_url:
            return event
        return msgspec.structs.replace(event, sender=sender, server_url=server_url)

    def _count(self, accepted: Sequence[Event], duplicates: int) -> None:
        for kind, count in Counter(event.kind for event in accepted).items():
            self._metrics.accepted(kind, count)
        self._metrics.duplicates(duplicates)

    async def _tell(self, accepted: Sequence[Event]) -> None:
        """Tell others of what is on disk, also where the one who handed it in has gone away."""
        for event in accepted:
            if event.kind == "CONNECTION_UPDATE":
                self._states.note(event)
        if not accepted or not self._hooks.implements("hookgw_event_accepted"):
            return
        with trio.move_on_after(_OBSERVERS_PATIENCE, shield=True) as patience:
            for event in accepted:
                await self._hooks.notify("hookgw_event_accepted", event=event)
        if patience.cancelled_caught:
            logger.warning("observers took too long: some heard nothing", events=len(accepted))


def _first(sentences: list[str]) -> list[str]:
    """The first of many sentences, and how many more there are."""
    more = len(sentences) - _NAMED_PROBLEMS
    return [*sentences[:_NAMED_PROBLEMS], f"And {more:,} more."] if more > 0 else sentences
