"""Accepts events: checks, addresses and stores them.

The rest of the path of an event, from here::

    EventIntake.accept ─> AppendTurns.begin
                     └──> LimitedOutbox.append ─> Store.append                commits
                                                    └> listener.appended      in open.py
                                                         └> Dispatcher.dispatch ─> Lane ─> DeliverySender.send
                                                                                    └> Store.settle_nowait

Nothing here waits for a receiver. When :meth:`EventIntake.accept` returns, the events are on disk.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import msgspec
import structlog
import trio

from hookgw.concurrency.light import in_task
from hookgw.config.settings import EventsSettings
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.long_work import long_work, run_in_slices
from hookgw.core.metrics import Metrics
from hookgw.core.registry import Registry
from hookgw.events.append_turns import AppendTurns
from hookgw.events.requests import DATA_TOO_LONG, EVENT_ID_FORM, Batch, CheckedEvent
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from hookgw.kernel.json_text import check_values
from hookgw.kernel.long_json import finish
from hookgw.kernel.recent import Recent
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import YEAR_10000
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.plugins.event_records import plain_event
from hookgw.plugins.hooks import Hooks
from hookgw.records.events import EVENT_ID, Catalog, Event, Receipt
from hookgw.records.fleet import ShardEpoch
from hookgw.records.instances import Instance
from hookgw.records.lanes import EventLanes
from hookgw.records.payload_schemas import SchemaBook
from hookgw.records.registrations import Ordering
from hookgw.records.sentences import INSTANCE_DELETED, OPERATIONAL_KIND
from hookgw.store import Append, ConnectorState

logger = structlog.get_logger("hookgw.intake")

MOST_DELIVERIES = 50_000
"""The most deliveries of one batch: they are numbered without a pause, at about 1 µs each, so that none of
another request come between them."""
LARGE_ROWS = 4000
LARGE_SIZE = 4 * 2**20
"""A batch of more events and deliveries together, or of more bytes, takes more than about 50 ms to store.
While other instances are active, such batches of one instance are kept apart. Smaller ones never wait."""
_BYTES_AS_A_ROW = 4096
"""Storing this many payload bytes costs as much as storing one row."""
_REPORTED_PROBLEMS = 100
"""How many problems of a batch are listed, in an error or as warnings."""
_FEW = 10
_SHORT = 4096
"""At most this many events, of at most so many bytes each on average, are checked without a pause."""
_LOGGED_EVERY, _LOGGED_RULES = 60.0, 10_000
"""Seconds between two lines about one rule that payloads of an instance violate; for so many rules."""
_OBSERVERS_TIMEOUT = 60.0
"""Seconds that all observers of one call may take together."""

_NO_HEADERS: Mapping[str, str] = {}
_NOT_APART = nullcontext()


class SeesStates(Protocol):
    """What is known of accounts; :class:`~hookgw.instances.connectors.states.ConnectionStates` is one."""

    def sender(self, instance: str) -> str | None: ...

    def note(self, event: Event) -> object: ...


class EventIntake(Collaborator):
    """Accepts events.

    Args:
        server_url: added to events that have none.
        catch_up: reads the records that other nodes have changed.
        accepted: hears of new events; it must return at once.
    """

    _settings: EventsSettings
    _catalog: Catalog
    _registry: Registry
    _outbox: LimitedOutbox
    _dispatcher: Dispatcher
    _states: SeesStates
    _hooks: Hooks
    _metrics: Metrics
    _server_url: str | None
    _catch_up: Callable[[], Awaitable[None]]
    _accepted: Callable[[Sequence[Event]], None] = lambda _: None

    def __post_init__(self) -> None:
        # By instance, kind and rule: when the log had a line, and how many violations came since.
        self._violations = Recent[tuple[str, str, Any], tuple[float, int]](_LOGGED_RULES)
        self.schemas = None if self._settings.validate == "off" else SchemaBook(self._catalog)
        self._turns = AppendTurns()
        self._long_work = long_work()
        self._observed_until = math.inf
        self._observing: set[trio.CancelScope] = set()

    async def accept(
        self,
        events: Sequence[Event],
        *,
        single: bool = False,
        state: ConnectorState | None = None,
        instance_id: str | None = None,
        epoch: ShardEpoch | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        only: str | None = None,
    ) -> Receipt:
        """Check events of plugins and connectors, which may hold anything, and store them: all or none.

        Args:
            events: in the order of delivery.
            single: the caller sent one event, not a batch: messages about it name no index.
            state: of a connector, stored in the same commit, even without events or with duplicates only.
            instance_id: all events are of this instance, and of no later one with its name.
            epoch: in which this node must hold the connector's shard; ``None`` without a connector.
            headers: of a request, for observers.
            only: the id of the only registration that gets them, whatever kinds it wants.

        Raises:
            Invalid: an event breaks a rule; each message begins with the event's index.
            NotFound, Unavailable, TooLarge: see :meth:`accept_checked`.
        """
        steps = self._check(events, single)
        if len(events) <= _FEW and sum(map(_size_of, events)) <= len(events) * _SHORT:
            batch = finish(steps)
        else:
            # By the name, as all other work of an instance; an event of a plugin may have anything there.
            name = getattr(events[0], "instance", "")
            batch = await run_in_slices(name if type(name) is str else "", steps)
        return await self.accept_checked(
            batch, state=state, instance_id=instance_id, epoch=epoch, headers=headers, only=only
        )

    async def accept_checked(  # noqa: C901 -- one step a time
        self,
        batch: Batch,
        *,
        state: ConnectorState | None = None,
        instance_id: str | None = None,
        epoch: ShardEpoch | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        only: str | None = None,
    ) -> Receipt:
        """Store events, each with one delivery for every registration that wants it: all or none.

        The events are on disk when this returns. The cancellation of a waiting caller does not undo that.

        Args:
            batch: what the parser has made with :attr:`schemas`. For the others, see :meth:`accept`.

        Raises:
            Invalid: ``events.validate`` is ``strict``, and an event violates its kind's schema.
            NotFound: the instance of an event, or of the state, does not exist, or is a later one.
            Unavailable: the disk refuses, a limit of the backlog is reached, or no lanes run.
            TooLarge: the events exceed such a limit on their own, or make too many deliveries.
        """
        # Stored events are delivered after a restart at the latest. But with a 202, producers would never
        # learn that deliveries have stopped.
        if not self._dispatcher.is_running:
            raise Unavailable.of(
                "gateway.starting_or_stopping",
                "hookgw does not deliver at the moment: it is starting or stopping.",
            )
        registry, hooks = self._registry, self._hooks
        # The caller may emit for these, and not for later instances of their names.
        instances: dict[str, Instance] = {}
        completed: list[Event] = []
        long: list[Event] = []
        warnings: list[Sentence] = []
        size = 0
        for index, checked in enumerate(batch.checked):
            event = checked.event
            name = event.instance
            if name not in instances:
                found = registry.find_instance(name)
                if found is None:
                    await self._catch_up()  # created on another node a moment ago, perhaps
                    found = registry.instance(name)
                instances[name] = found
                if instance_id is not None and found.id != instance_id:
                    raise NotFound(INSTANCE_DELETED(name=name))
            # The sender and the server's URL, if the gateway knows them and the producer did not.
            sender = event.sender or self._states.sender(name)
            server_url = event.server_url or self._server_url
            if sender != event.sender or server_url != event.server_url:
                event = msgspec.structs.replace(event, sender=sender, server_url=server_url)
            completed.append(event)
            data_size = len(event.data_json)
            size += data_size
            if data_size > _SHORT:
                long.append(event)
            if checked.violation is not None:
                warnings.append(
                    checked.violation if batch.is_single else checked.violation.at(f"events[{index}].")
                )
        if warnings and self._settings.validate == "strict":  # all or none: one bad payload refuses the batch
            raise Invalid(*_first(warnings))
        if long and any(
            registration.ordering is Ordering.CHAT
            for name, kind in {(event.instance, event.kind) for event in long}
            for registration in registry.wanting(name, kind)
        ):
            await run_in_slices(long[0].instance, _find_chats(long))
        if warnings:
            # Not the sentence, which repeats a part of the payload: the number of a person, for example.
            first, violation = next((one.event, one.violation) for one in batch.checked if one.violation)
            # A producer may send nothing else: the first line of a minute is enough.
            rule, now = violation.values.get("rule"), trio.current_time()
            logged_at, count = self._violations.get((first.instance, first.kind, rule)) or (-math.inf, 0)
            count += len(warnings)
            if now >= logged_at + _LOGGED_EVERY:
                logger.warning(
                    "payloads violate their schema",
                    instance=first.instance,
                    kind=first.kind,
                    event_id=first.id,
                    rule=rule,
                    count=count,
                )
                logged_at, count = now, 0
            self._violations.put((first.instance, first.kind, rule), (logged_at, count))
        if hooks.implements("hookgw_accept") and completed:
            await hooks.notify("hookgw_accept", events=completed, headers=dict(headers))

        def address() -> list[Append]:
            # The id, too: the state must not outlive its instance, nor go to a later one of that name.
            if state is not None and registry.instance(state.instance).id != state.instance_id:
                raise NotFound(INSTANCE_DELETED(name=state.instance))
            appends, deliveries = [], 0
            # Looked up once, not for each event of a batch.
            lanes: dict[tuple[str, str], EventLanes] = {}
            for event in completed:
                key = name, kind = event.instance, event.kind
                if key not in lanes:
                    # It may have been deleted during a wait.
                    known = instances[name]
                    if registry.find_instance(name) is not known and registry.instance(name).id != known.id:
                        raise NotFound(INSTANCE_DELETED(name=name))
                    lanes[key] = registry.lanes(name, kind) if only is None else self._receiver(only)
                targets = lanes[key].of_all or lanes[key].targets(event)
                deliveries += len(targets)
                if deliveries > MOST_DELIVERIES and len(completed) > 1:
                    raise TooLarge.of(
                        "batch.too_many_deliveries",
                        "The batch makes more than {most:,} deliveries: {events:,} events to up to "
                        "{registrations} registrations. Split it into smaller batches.",
                        most=MOST_DELIVERIES,
                        events=len(completed),
                        registrations=len(targets),
                    )
                appends.append(Append(event, targets))
            return appends

        instance = completed[0].instance if completed else state.instance if state is not None else ""
        rows = len(completed) * (1 + registry.count_hearing(instance)) + (state is not None)
        weight = rows + size // _BYTES_AS_A_ROW
        if completed:
            self._long_work.active(instance)
        # The next large batch of the instance waits for this one.
        is_large = len(completed) > 1 and (rows > LARGE_ROWS or size > LARGE_SIZE)
        async with self._long_work.large_append(instance) if is_large else _NOT_APART:
            turn = self._turns.begin_nowait(instance, weight) or await self._turns.begin(instance, weight)
            # No checkpoint after this: a caller that is cancelled during the write cannot take the events
            # back, so metrics and observers must hear of them.
            try:
                stored = await self._outbox.append(address, state=state, epoch=epoch)
            finally:
                self._turns.end(turn)
        accepted: list[Event] = []
        # Counted once for each kind, not for each event of a batch.
        kinds: dict[str, int] = {}
        for event, is_new in zip(completed, stored, strict=True):
            if is_new:
                accepted.append(event)
                kinds[event.kind] = kinds.get(event.kind, 0) + 1
        for kind, count in kinds.items():
            self._metrics.accepted(kind, count)
        if len(accepted) < len(completed):
            self._metrics.duplicates(len(completed) - len(accepted))
        self._accepted(accepted)
        if "CONNECTION_UPDATE" in kinds:
            self._note_states(accepted)
        if hooks.implements("hookgw_event_accepted") and accepted:
            await self._notify(accepted)
        return Receipt(stored, [*map(str, _first(warnings))] if warnings else [])

    def _receiver(self, registration_id: str) -> EventLanes:
        found = self._registry.registration(registration_id)
        if found is None or not found.enabled:
            raise Conflict.of("webhook.deleted_or_disabled", "The registration was deleted or disabled.")
        return EventLanes([found])

    def _check(self, events: Iterable[Event], single: bool) -> Generator[None, None, Batch]:
        """Check the values of events, and pause after each one. ``Invalid`` has the mistake of each event."""
        checked: list[CheckedEvent] = []
        problems: list[Sentence] = []
        for index, given in enumerate(events):
            try:
                event = plain_event(given)
            except ValueError as error:
                problems.append(
                    Sentence("event.refused_of_batch", "events[{index}] {error}.", index=index, error=error)
                )
                yield
                continue
            problem, violation = self._problem(event), None
            if problem is not None:
                problems.append(problem if single else problem.at(f"events[{index}]: "))
            elif self.schemas is not None:
                violation = self.schemas.problem(event)
                if violation is not None and self._settings.validate == "strict":
                    problems.append(violation if single else violation.at(f"events[{index}]."))
            checked.append(CheckedEvent(event, violation))
            yield
        if problems:
            raise Invalid(*_first(problems))
        return Batch(checked, [], is_single=single)

    def _problem(self, event: Event) -> Sentence | None:
        """Return which rule an event breaks that :class:`EventReader` would have refused."""
        kind = self._catalog.get(event.kind)
        if kind is None or kind.name != event.kind:
            return Sentence(
                "event.kind_not_in_catalog", "{kind!r} is not an event kind of the catalog.", kind=event.kind
            )
        if kind.operational:
            return OPERATIONAL_KIND(kind=kind.name)
        if not EVENT_ID.fullmatch(event.id):
            return EVENT_ID_FORM(where="id")
        if len(event.data_json) > self._settings.max_data:
            return DATA_TOO_LONG(where="data", bytes=len(event.data_json), limit=self._settings.max_data)
        try:
            check_values(event.data_json, self._settings.max_values)
        except ValueError as error:
            return Sentence("event.data_refused", "data {reason}.", reason=error)
        if not 0 <= event.time < YEAR_10000:
            return Sentence(
                "event.time_range", "time must be seconds since the epoch, before the year 10000."
            )
        return None

    def limit_observers(self, until: float) -> None:
        """Notify no observer after this time, by Trio's clock: hookgw stops."""
        self._observed_until = min(self._observed_until, until)
        for scope in self._observing:
            scope.deadline = min(scope.deadline, until)

    def _note_states(self, accepted: Sequence[Event]) -> None:
        for event in accepted:
            # The instance may have been deleted during the commit: then its state would be kept for good. A
            # connector's own state wins over the state in an emitted event.
            if event.kind == "CONNECTION_UPDATE":
                instance = self._registry.find_instance(event.instance)
                if instance is not None and not instance.integration:
                    self._states.note(event)

    async def _notify(self, accepted: Sequence[Event]) -> None:
        await in_task()
        # Shielded: the events are accepted even if the producer is gone, and observers count them.
        until = min(trio.current_time() + _OBSERVERS_TIMEOUT, self._observed_until)
        with trio.CancelScope(deadline=until, shield=True) as scope:
            self._observing.add(scope)
            try:
                for event in accepted:
                    await self._hooks.notify("hookgw_event_accepted", event=event)
            finally:
                self._observing.remove(scope)
        if scope.cancelled_caught:
            logger.warning("observers took too long; some events were not observed", events=len(accepted))


def _size_of(event: Any) -> int:
    data_json = getattr(event, "data_json", b"")
    return len(data_json) if type(data_json) is bytes else 0


def _find_chats(events: Iterable[Event]) -> Generator[None, None, None]:
    for event in events:
        event.chat_hash  # noqa: B018 -- found now and kept: addressing a batch cannot pause
        yield


def _first(sentences: list[Sentence]) -> list[Sentence]:
    """Return the first sentences, and how many more there are."""
    more = len(sentences) - _REPORTED_PROBLEMS
    if more <= 0:
        return sentences
    return [*sentences[:_REPORTED_PROBLEMS], Sentence("events.more", "And {count:,} more.", count=more)]
