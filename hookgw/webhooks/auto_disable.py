"""Disables registrations: the receiver answered 410, or nothing succeeded for too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from hookgw.concurrency.clock import Clock
from hookgw.config.settings import DeliverySettings
from hookgw.core.audit import acting_as
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.lanes.retry_policy import policy_of
from hookgw.records.audit import HOOKGW
from hookgw.records.deliveries import Attempt, Outcome
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.registrations import Registration

logger = structlog.get_logger("hookgw.delivery")

STORED_AFTER = 60.0
"""Seconds of failing before ``failing_since`` is stored: a registration that fails now and then costs no
writes."""
STORED_EVERY = 600.0
"""Seconds of failing after which ``failed_for`` is stored again. Where hookgw starts again or another node
takes over, up to this time and one wait do not count."""
FEW = 100
"""Up to this many failing registrations, none is cleaned up."""


class _Failing(NamedTuple):
    """Since when a registration fails, and how it failed last: unknown until the first attempt of a start.

    Its time of failing counts from ``counts_from``: later than ``since`` by the time in which nobody tried,
    because no hookgw ran.
    """

    registration: Registration
    since: float
    counts_from: float
    outcome: Outcome | None = None
    error: str | None = "The last attempts failed; none was made since hookgw started."


class AutoDisable(Collaborator):
    """Watches how long registrations have been failing, and disables them.

    Pending deliveries of a disabled registration become dead letters, which can be replayed once the receiver
    works again. The registration for operational events is exempt: only the configuration disables it.
    """

    _registry: Registry
    _pending: PendingDeliveries
    _operational: OperationalEvents
    _clock: Clock
    _settings: DeliverySettings

    def __post_init__(self) -> None:
        # This decides. `failing_since` on disk only carries it over a restart: the disk may have refused its
        # last change.
        self._failing: dict[str, _Failing] = {}
        self._most = FEW

    def take_up(self, registrations: Iterable[Registration]) -> None:
        """Begin to watch registrations, before their lanes start.

        A registration that was failing counts as failing at once: its next attempt may be minutes away.
        """
        now = self._clock.steady()
        for found in registrations:
            if found.enabled and found.failing_since is not None:
                self._failing[found.id] = _Failing(found, found.failing_since, now - found.failed_for)
        self._most = max(FEW, 2 * len(self._failing))

    def leave(self, registration_ids: Iterable[str]) -> None:
        """Forget registrations, after their lanes have ended: another node watches them now.

        When they come back, they may have worked meanwhile.
        """
        for registration_id in registration_ids:
            self._failing.pop(registration_id, None)

    def failing(self) -> Iterator[tuple[Registration, float]]:
        """Yield the registrations that fail now, with the time of the first failure in a row (steady clock).

        Finish the iteration before the next checkpoint.
        """
        for name in self._failing:
            current, since = self._registry.registration(name), self.failing_since(name)
            if current is not None and since is not None:
                yield current, since

    def failing_since(self, registration_id: str) -> float | None:
        """Return since when a registration fails (steady clock); ``None`` if it does not."""
        known = self._failing.get(registration_id)
        current = self._registry.registration(registration_id)
        # An entry stays until the next attempt: it may be disabled, paused or set again by now.
        if known is None or current is None or not current.enabled or current.is_paused:
            return None
        return None if _begins_afresh(current, known.registration) else known.since

    def last_failure(self, registration_id: str) -> tuple[Outcome | None, str | None]:
        """Return how a failing registration failed last, also if its lane is idle and forgotten."""
        known = self._failing.get(registration_id)
        return (None, None) if known is None else (known.outcome, known.error)

    def is_failing(self, registration: Registration) -> bool:
        """Return whether a registration's next delivery ends a period of failure."""
        return registration.id in self._failing or registration.failing_since is not None

    async def attempted(self, attempt: Attempt, registration: Registration) -> None:
        """Note an attempt's outcome; disable the registration if it has been failing for too long.

        The attempt was made at the registration's present target; ``registration`` is as it was then.
        """
        if registration.id == OPERATIONS_ID:
            return
        if attempt.outcome is Outcome.DELIVERED:
            if self.is_failing(registration):
                self._failing.pop(registration.id, None)
                await self._store_failing_since(registration)
            return
        current = self._registry.registration(registration.id)
        # An attempt was in flight when its owner paused the registration: a pause does not count as failing.
        if current is None or current.is_paused:
            return
        now = self._clock.steady()
        known = self._failing.get(registration.id)
        # The time of failing begins anew with another target, and when the owner sets or enables the
        # registration again, perhaps after days of being disabled. Other changes do not matter. An attempt in
        # flight still has the former registration: ask the current one.
        if known is None or _begins_afresh(current, known.registration):
            known = _Failing(current, now, now)
        self._failing[registration.id] = known._replace(
            registration=current, outcome=attempt.outcome, error=attempt.error
        )
        if len(self._failing) > self._most:
            # Deletions are not reported here. The cleanup waits until there are twice as many entries as the
            # last one left, so that an attempt costs no more where many registrations fail.
            present = self._registry.registration
            self._failing = {
                name: entry for name, entry in self._failing.items() if present(name) is not None
            }
            self._most = max(FEW, 2 * len(self._failing))
        disable_after = policy_of(registration, self._settings).disable_after
        if now - known.counts_from >= disable_after:
            reason = f"It failed for {disable_after:g} s without one success."
            await self.disable(registration, reason, failing_since=known.since)
        elif now - known.counts_from >= STORED_AFTER or current.failing_since is not None:
            # At once if the disk has the time of failures that a success ended: after a restart, they would
            # count again.
            await self._store_failing_since(registration)

    async def disable(
        self, registration: Registration, reason: str, *, failing_since: float | None = None
    ) -> None:
        """Disable a registration, and park its pending deliveries.

        Nothing happens if the registration has another target by now: the reason was the former receiver.
        While the disk refuses, the registration stays enabled, and the next attempt leads here again.

        Args:
            registration: as it was when the attempt was made.
            failing_since: if given, nothing happens unless the registration still fails since then: it may
                have succeeded, been set or been paused while this waited for another change.
        """
        if registration.id == OPERATIONS_ID:
            return
        ids = {
            "registration": registration.id,
            "instance": registration.instance,
            "label": registration.label,
        }
        async with self._registry.changing(registration.instance):
            current = self._registry.registration(registration.id)
            if current is None or not current.enabled or not current.has_target_of(registration):
                return
            if failing_since is not None and self.failing_since(registration.id) != failing_since:
                return
            # `failing_since` is cleared: a registration that its owner enables again has its full time.
            disabled = msgspec.structs.replace(
                current,
                enabled=False,
                disabled_reason=reason,
                failing_since=None,
                updated_at=self._clock.wall(),
            ).switched(current, self._clock.steady())
            try:
                # The lane's task may have been started by a request, whose actor it has.
                with acting_as(HOOKGW):
                    await self._pending.replace(current, disabled)
            except StorageUnavailable as error:
                logger.warning("registration not disabled", **ids, reason=str(error))
                return
            self._failing.pop(registration.id, None)
            logger.warning("registration disabled", **ids, reason=reason)
            self._operational.registration_disabled(disabled, reason)

    async def _store_failing_since(self, registration: Registration) -> None:
        async with self._registry.changing(registration.instance):
            # Read under the lock: its owner may have set the registration while this waited.
            current = self._registry.registration(registration.id)
            since, seconds = self.failing_since(registration.id), 0.0
            if since is not None:
                seconds = self._clock.steady() - self._failing[registration.id].counts_from
            if current is None or (
                current.failing_since == since and seconds - current.failed_for < STORED_EVERY
            ):
                return
            failing = msgspec.structs.replace(current, failing_since=since, failed_for=seconds)
            with suppress(StorageUnavailable):  # the next attempt stores it
                await self._registry.put(failing)


def _begins_afresh(current: Registration, former: Registration) -> bool:
    """Return whether failures of the former registration say nothing about the current one."""
    return not current.has_target_of(former) or current.fresh_since != former.fresh_since
