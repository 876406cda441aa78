"""Finds the present problems that this process knows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.backlog import Backlog
from hookgw.core.disk_space import DiskSpaceWatch
from hookgw.core.metrics import Metrics
from hookgw.core.plugin_restarts import PluginRestarts
from hookgw.core.registry import Registry
from hookgw.deliveries.stuck_lanes import StuckLanes
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.quiet import QuietWatch
from hookgw.instances.service import InstanceService
from hookgw.kernel.collaborator import Collaborator
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.operations.causes import cause_of_closing, cause_of_disabling, cause_of_failure, host_of
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import LaneStatistics, Outcome
from hookgw.records.problems import Problem, ProblemKind, held_back
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.records.stuck_lanes import advice_for, skippable
from hookgw.store import Held
from hookgw.webhooks.auto_disable import AutoDisable

_AT_ONCE = 200


class Problems(Collaborator):
    """Finds problems in the work of this process.

    Args:
        held: returns the deliveries that the storage holds back.
        holds: returns whether this node has an instance, by its name; or a registration of the configuration,
            by its id.
    """

    _instances: InstanceService
    _states: ConnectionStates
    _quiet: QuietWatch
    _registry: Registry
    _dispatcher: Dispatcher
    _auto_disable: AutoDisable
    _stuck: StuckLanes
    _restarts: PluginRestarts
    _backlog: Backlog
    _disk: DiskSpaceWatch
    _metrics: Metrics
    _held: Callable[[], Held]
    _clock: Clock
    _holds: Callable[[str], bool]

    def of_system(self) -> list[Problem]:
        """Return the problems of the storage, and of plugins' background tasks."""
        shortages = (self._disk.shortage, self._metrics.disk_failure)
        found = [Problem(ProblemKind.DISK, str(reason)) for reason in shortages if reason is not None]
        found += self._held_back()
        for task in self._restarts.failing():
            if task.instance is None:
                found.append(Problem(ProblemKind.PLUGIN, f"It fails: {task.reason}", plugin=task.plugin))
        return found

    def _held_back(self) -> Iterator[Problem]:
        held = self._held()
        if held.oldest_queued_at is not None:
            why = f"{held_back(held.count)} {held.culprit}".rstrip()
            yield Problem(ProblemKind.DATABASE, why, held.oldest_queued_at + self._clock.apart())

    def of_webhooks(self, among: Collection[str] | None, most: int) -> list[Problem]:
        """Return at most ``most`` webhooks that fail or are held up, the longest first.

        Args:
            among: only webhooks of these instances; ``None`` for all.
        """
        names = None if among is None else frozenset(among)
        apart = self._clock.apart()
        held_up: dict[str, tuple[LaneStatistics | None, str]] = {}
        present = self._stuck.present()
        for stuck, words in present:
            held_up.setdefault(stuck.registration, (stuck, words))
        failing = [
            (registration, since)
            for registration, since in self._auto_disable.failing()
            if (names is None or registration.instance in names) and self._has(registration)
        ]
        # Where one lane of many is held up, the others deliver, and the webhook does not count as failing.
        known = {registration.id for registration, _ in failing}
        for stuck, _ in present:
            registration = self._registry.registration(stuck.registration)
            if registration is None or stuck.registration in known or stuck.tried_since is None:
                continue
            if (names is None or registration.instance in names) and self._has(registration):
                failing.append((registration, stuck.tried_since))
                known.add(registration.id)
        found = []
        for registration, since in heapq.nsmallest(most, failing, key=lambda one: one[1]):
            lane, advice = held_up.get(registration.id) or self._failing_lane(registration)
            # A receiver that rejects all leaves its lane idle, which is soon forgotten.
            outcome, error = self._auto_disable.last_failure(registration.id)
            if lane is not None:
                outcome, error = lane.last_outcome, lane.last_error
            why = f"{error or ''} {advice}".strip()
            found.append(
                _of_webhook(
                    ProblemKind.WEBHOOK_FAILING,
                    registration,
                    why,
                    since + apart,
                    delivery="" if lane is None else skippable(lane),
                    cause=cause_of_failure(_receiver(registration), outcome, error),
                    pending=self._backlog.of(registration.id)[0],
                    loses=outcome is Outcome.REJECTED,
                )
            )
        return found

    def _failing_lane(self, registration: Registration) -> tuple[LaneStatistics | None, str]:
        """Return the lane of a failing webhook that shows the reason, if there is one, and the remedy."""
        lanes = [lane for lane in self._dispatcher.lanes(registration.id) if lane.last_error is not None]
        lane = next((lane for lane in lanes if lane.tried_since is not None), lanes[0] if lanes else None)
        # A lane becomes stuck between two attempts, and is reported only after the next, up to 5 m later.
        return lane, (lane and advice_for(lane, self._clock.steady())) or ""

    def _has(self, registration: Registration) -> bool:
        is_global = registration.instance == GLOBAL_INSTANCE
        return self._holds(registration.id if is_global else registration.instance)

    async def of_instances(self, among: Collection[str] | None, most: int) -> list[Problem]:
        """Return disabled webhooks, high backlogs, and lost and quiet connections, sorted by instance.

        The search stops once ``most`` are found; the result may have a few more. Those of webhooks of
        the configuration come first, unless only some instances are asked for.
        """
        everywhere = self._registry.hearing(GLOBAL_INSTANCE) if among is None else []
        found = [*self._stopped(filter(self._has, everywhere))]
        names = self._suspects() if among is None else among
        for number, name in enumerate(names):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()  # ten thousand take longer than others should wait
            if len(found) >= most:
                break
            if self._holds(name):
                found += self._of_instance(name)
        return found

    def _suspects(self) -> list[str]:
        """Return the names of instances that may have a problem, sorted, by a quick look at all of them."""
        disabled = {one.instance for one in self._registry.registrations() if one.disabled_reason is not None}
        for registration_id, _ in self._backlog.registrations():
            registration = self._registry.registration(registration_id)
            if registration is not None and self._backlog.is_high(registration_id):
                disabled.add(registration.instance)
        disabled.update(self._quiet.quiet())
        not_closed, ended = self._states.not_closed(), self._states.ended()
        return [
            one.name
            for one in self._instances.all()
            if one.name in disabled
            or (one.integration and (one.connected or one.name in ended) and one.name not in not_closed)
        ]

    def _stopped(self, registrations: Iterable[Registration]) -> Iterator[Problem]:
        """Yield the webhooks that are disabled, or have a high backlog."""
        for registration in registrations:
            if registration.disabled_reason is not None:
                why = f"Disabled. {registration.disabled_reason}"
                # 0 for one of the configuration that another node has disabled: this one does not know when.
                since = registration.updated_at or None
                cause = cause_of_disabling(_receiver(registration), registration.disabled_reason)
                yield _of_webhook(ProblemKind.WEBHOOK_DISABLED, registration, why, since, cause=cause)
            elif self._backlog.is_high(registration.id):
                count, _ = self._backlog.of(registration.id)
                why = f"{count:,} deliveries wait."
                cause = f"{host_of(_receiver(registration))} is too slow: the backlog is high"
                yield _of_webhook(ProblemKind.BACKLOG, registration, why, None, cause=cause, pending=count)

    def _of_instance(self, name: str) -> Iterator[Problem]:
        yield from self._stopped(self._registry.of_instance(name))
        instance, states = self._instances.find(name), self._instances
        if instance is None:
            return
        state, quiet_since = states.connection_state(name), self._quiet.quiet_since(name)
        if quiet_since is not None:
            quiet_since += self._clock.apart()
            why = "Connected, but no event comes."
            cause = "No event comes from accounts that are connected"
            yield Problem(ProblemKind.INSTANCE_QUIET, why, quiet_since, instance=name, cause=cause)
        if state is not ConnectionState.CLOSE or not instance.integration:
            return
        reason, closing = states.close_reason(name) or "", states.closing(name)
        is_disconnected = states.is_disconnected(name)
        # If the network has ended a connection, that is a problem until the instance is connected, logged out
        # or deleted. If a user has ended it, it is none.
        if instance.connected or is_disconnected:
            since = closing.at if closing and is_disconnected else None
            why = f"Not connected. {reason}".rstrip()
            cause = cause_of_closing(reason)
            yield Problem(ProblemKind.INSTANCE_CLOSED, why, since, instance=name, cause=cause)


def _receiver(registration: Registration) -> str:
    """Return the URL of a receiver. A receiver that fetches has no URL: it is named by its webhook."""
    return f"{registration.instance}/{registration.label}" if registration.is_pulled else registration.url


def _of_webhook(
    kind: ProblemKind, registration: Registration, why: str, since: float | None, **more: Any
) -> Problem:
    instance, label, url = registration.instance, registration.label, registration.address
    return Problem(kind, why, since, instance=instance, label=label, detail=url, **more)
