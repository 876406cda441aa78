"""Sets, deletes and tests registrations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.config.settings import Settings
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.pending import DELETED, PendingDeliveries
from hookgw.core.registry import Registry, accept_any
from hookgw.core.shielded import completes
from hookgw.delivery.http.errors import NoAttempt
from hookgw.delivery.outbound import OutboundHttp
from hookgw.delivery.sender import DeliverySender, template_for
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, Forbidden, Invalid, NotFound, PluginFailed
from hookgw.kernel.rules import check_destination
from hookgw.kernel.schemes import is_http
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.retry_policy import policy_of
from hookgw.plugins.hooks import Hooks
from hookgw.records.deliveries import Attempt, Delivery, LaneStatistics, Outcome
from hookgw.records.events import Catalog, Event, new_event_id
from hookgw.records.jobs import Job, JobKind
from hookgw.records.registrations import (
    DEFAULT_LABEL,
    Ordering,
    Registration,
    in_grace,
    new_secret,
)
from hookgw.records.tls_identity import NO_IDENTITY, expired_part
from hookgw.webhooks.backfills import Backfills, Found
from hookgw.webhooks.change import RegistrationChange

MOST_REGISTRATIONS = 16
"""Of one instance."""
_USUAL_KIND = "MESSAGES_UPSERT"


class StoredRegistration(NamedTuple):
    """The result of :meth:`RegistrationService.set`.

    Attributes:
        warnings: the address guard refuses the URL now, or the concurrency has no effect.
        job: still makes its pending deliveries dead letters, or sends what it has missed; ``None`` if that is
            done.
        missed: what it had missed while it was disabled; ``None`` unless the change has enabled it.
    """

    registration: Registration
    warnings: list[str]
    job: Job | None
    missed: Found | None = None


class HasRegistration(Protocol):
    """A new instance, and its first registration."""

    @property
    def registration(self) -> Registration | None: ...


class CreateInstance(Protocol):
    """Creates an instance together with a registration, in one commit."""

    def __call__(
        self, name: str, *, webhook: RegistrationChange, label: str
    ) -> Awaitable[HasRegistration]: ...


class RegistrationService(Collaborator):
    """The calls that change registrations, or show them.

    Every change raises ``StorageUnavailable`` if the disk refuses, and nothing has changed. Every method for
    an instance and a label raises ``NotFound`` if there is no such registration; ``set`` makes it.

    Attributes:
        by_id, of_instance, count, page: see :class:`~hookgw.core.registry.Registry`.
    """

    _registry: Registry
    _create_instance: CreateInstance
    _pending: PendingDeliveries
    _dispatcher: Dispatcher
    _hooks: Hooks
    _catalog: Catalog
    _sender: DeliverySender
    _outbound: OutboundHttp
    _clock: Clock
    _settings: Settings
    _jobs: Jobs
    _backfills: Backfills

    def __post_init__(self) -> None:
        self.by_id, self.of_instance = self._registry.registration, self._registry.of_instance
        self.count, self.page = self._registry.count, self._registry.page
        self.find, self.get = self._registry.find, self._registry.get

    def configured(self, label: str) -> Registration:
        """Return a registration of ``global_webhooks``."""
        registration = self._registry.configured(label)
        if registration is None:
            raise NotFound.of(
                "webhook.not_configured",
                "No webhook of the configuration has the label {label!r}. For a webhook of an instance, "
                "name the instance.",
                label=label,
            )
        return registration

    async def set(
        self,
        instance: str,
        label: str,
        change: RegistrationChange,
        *,
        create: bool = False,
        declared_by: str = "",
        looks_up: bool = True,
        check: Callable[[Registration | None], None] = accept_any,
    ) -> StoredRegistration:
        """Store a registration, new or changed.

        Looking up the URL's host takes at most 2 s, after the registration is stored.

        Args:
            create: create an instance that does not exist, if ``instances.auto_create`` allows it.
            declared_by: of a new registration.
            looks_up: whether to return warnings. A caller that stores many asks for them afterwards, at once.
            check: see :func:`hookgw.core.registry.accept_any`. It gets ``None`` for a new registration.

        Raises:
            NotFound: there is no such instance.
            Invalid: a plugin refuses its options, or the instance has too many registrations. No instance is
                created for a refused registration.
        """
        stored, running, found = None, None, self._registry.find_instance(instance)
        missed = await self._missed(instance, label, change)
        if create and self._settings.instances.auto_create and self._registry.find_instance(instance) is None:
            # One commit for both: a crash in between would leave an instance without its registration.
            with suppress(Forbidden):  # another request created it at the same moment
                stored = (await self._create_instance(instance, webhook=change, label=label)).registration
        if stored is None:
            instance_id = None if found is None else found.id
            stored, running = await self._store(instance, instance_id, label, change, declared_by, check)
        return await self._result(stored, running, missed, looks_up=looks_up)

    async def update(
        self,
        instance: str,
        label: str,
        change: RegistrationChange,
        *,
        backfill: bool = False,
        looks_up: bool = True,
    ) -> StoredRegistration:
        """Change some fields of a registration; return as :meth:`set` does.

        Args:
            looks_up: as for :meth:`set`.
            backfill: it is disabled, the change enables it, and the same commit begins a backfill of what it
                has missed since it was disabled.

        Raises:
            Invalid: a plugin refuses its options, or it would be enabled with a URL that cannot be delivered
                to; or a backfill is asked for, and the change does not enable it. Nothing is changed.
            Conflict: a backfill is asked for, and the former one has not ended yet.
        """
        instance_id = self._registry.instance(instance).id
        missed = await self._missed(instance, label, change)
        stored, running = await self._update(instance, instance_id, label, change, backfill=backfill)
        return await self._result(stored, running, missed, looks_up=looks_up)

    async def _result(
        self, stored: Registration, running: RunningJob | None, missed: Found | None, *, looks_up: bool
    ) -> StoredRegistration:
        job = None if running is None else await self._jobs.wait(running)
        warnings = await self.warnings(stored) if looks_up else []
        return StoredRegistration(stored, warnings, job if job and job.is_running else None, missed)

    async def _missed(self, instance: str, label: str, change: RegistrationChange) -> Found | None:
        """Return what a registration has missed that a change enables; ``None`` for another change."""
        old = self._registry.find(instance, label)
        if old is None or old.enabled:
            return None
        new = change.apply(old, instance=instance, label=label, now=self._clock.wall())
        if not new.enabled:
            return None
        # By its new kinds, and up to now.
        asked = msgspec.structs.replace(new, enabled=False)
        return await self._backfills.missed_while_disabled(asked)

    @completes
    async def _update(
        self, instance: str, instance_id: str, label: str, change: RegistrationChange, *, backfill: bool
    ) -> tuple[Registration, RunningJob | None]:
        async with self._registry.changing_existing(instance, instance_id=instance_id) as found:
            old = self.get(instance, label)
            new = change.apply(old, instance=instance, label=label, now=self._clock.wall())
            new = new.switched(old, self._clock.steady())
            if backfill and not (new.enabled and not old.enabled):
                raise Invalid.of(
                    "backfill.needs_disabled",
                    "backfill needs enabled: true and a webhook that is disabled. To backfill an enabled "
                    "webhook, call /webhook/backfill.",
                )
            same = msgspec.structs.replace(new, updated_at=old.updated_at)
            # As JSON: to Python, true and 1 in a filter or in options of a plugin are equal.
            if msgspec.json.encode(same) == msgspec.json.encode(old):
                return old, None
            if new.enabled:
                # The stored URL of a disabled registration may be any string. Another call may have disabled
                # it, or changed its URL, since this change was read.
                check_destination(new.url, "url")
            self._hooks.check_registration(new, old)
            if not backfill:
                return new, await self._pending.replace(old, new)
            asked = self._backfills.new_of_enabled(new, found)
            begun: RunningJob | None = None

            async def put(registration: Registration, /, *, due: bool, job: Job | None) -> None:
                nonlocal begun
                begun = await self._backfills.put_and_begin(registration, asked, due=due, parking=job)

            await self._pending.replace(old, new, put=put)
            return new, begun

    @completes
    async def _store(
        self,
        instance: str,
        instance_id: str | None,
        label: str,
        change: RegistrationChange,
        declared_by: str,
        check: Callable[[Registration | None], None],
    ) -> tuple[Registration, RunningJob | None]:
        async with self._registry.changing_existing(instance, instance_id=instance_id):
            old = self._registry.find(instance, label)
            check(old)
            if old is None and len(self._registry.of_instance(instance)) >= MOST_REGISTRATIONS:
                raise Invalid.of(
                    "webhook.too_many",
                    "An instance has at most {most} registrations; delete one first.",
                    most=MOST_REGISTRATIONS,
                )
            # The same time for every field of the change; the wall clock, because clients see it.
            new = change.apply(old, instance=instance, label=label, now=self._clock.wall())
            new = new.switched(old, self._clock.steady())
            self._hooks.check_registration(new, old)
            if old is None:
                new = msgspec.structs.replace(new, declared_by=declared_by)
                await self._registry.put(new)
                return new, None
            return new, await self._pending.replace(old, new)

    async def warnings(self, registration: Registration) -> list[str]:
        """Return the warnings of :meth:`set` as they would be now."""
        warnings = await self._outbound.warnings(registration)
        if registration.ordering is Ordering.URL and registration.concurrency > 1:
            warnings = [*warnings, "concurrency has no effect with ordering url."]
        if registration.is_pulled:
            without_effect = {
                "headers": registration.headers,
                "timeout": registration.timeout is not None,
                "byEvents": registration.by_events,
                "tls": registration.tls != NO_IDENTITY,
            }
            names = [name for name, is_set in without_effect.items() if is_set]
            warnings = [*warnings, *(f"{name} has no effect: the receiver fetches." for name in names)]
        elif registration.by_events and registration.enabled and not is_http(registration.url):
            warnings = [*warnings, "webhookByEvents has no effect: a plugin sends to this URL."]
        if registration.tls != NO_IDENTITY and not registration.is_pulled:
            if registration.url.lower().startswith("http:"):
                warnings = [*warnings, "tls has no effect: the URL begins with http://."]
            if (sentence := expired_part(registration.tls, self._clock.wall())) is not None:
                warnings = [*warnings, sentence]
        return warnings

    def refusals(self, registration: Registration) -> list[str]:
        """Return why the address guard refuses a registration's deliveries, as warnings, without a lookup.

        It knows literal addresses, ports, and the result of the last attempt.
        """
        known = self._outbound.known_refusal(registration)
        if known is None and registration.enabled:
            lanes = self._dispatcher.lanes(registration.id)
            known = next((one.last_error for one in lanes if one.last_outcome is Outcome.BLOCKED), None)
        return [] if known is None else [f"url: {known}"]

    @completes
    async def pause(self, instance: str, label: str = DEFAULT_LABEL) -> Registration:
        """Let a registration's deliveries wait on disk, in order, until :meth:`resume`; also after a restart.

        New events join them, within the limits of the backlog. An attempt in flight ends as usual. Nothing
        changes if the registration is paused already.

        Raises:
            Conflict: it is disabled.
        """
        async with self._registry.changing_existing(instance):
            registration = self._enabled(instance, label)
            if registration.is_paused:
                return registration
            paused = registration.paused(self._clock.wall())
            await self._pending.replace(registration, paused)
            return paused

    @completes
    async def resume(self, instance: str, label: str = DEFAULT_LABEL) -> list[LaneStatistics]:
        """End a registration's pause, and let its waiting lanes try again now. Return its lanes.

        Raises:
            Conflict: it is disabled.
        """
        async with self._registry.changing_existing(instance):
            registration = self._enabled(instance, label)
            if registration.is_paused:
                resumed = registration.resumed(self._clock.wall()).switched(
                    registration, self._clock.steady()
                )
                await self._pending.replace(registration, resumed)
        self._dispatcher.resume(registration.id)
        return self._dispatcher.lanes(registration.id)

    def _enabled(self, instance: str, label: str) -> Registration:
        registration = self.get(instance, label)
        if not registration.enabled:
            raise Conflict.of(
                "webhook.disabled_nothing_pending",
                "The registration is disabled: nothing is pending. Enable it first (set enabled to true).",
            )
        return registration

    async def delete(self, instance: str, label: str = DEFAULT_LABEL) -> Job:
        """Delete a registration. Return the job that parks its deliveries; see :meth:`Jobs.wait`."""
        return await self._jobs.wait(await self._delete(instance, label))

    @completes
    async def _delete(self, instance: str, label: str) -> RunningJob:
        async with self._registry.changing_existing(instance) as found:
            registration = self.get(instance, label)
            job = self._jobs.new(
                JobKind.DELETE_REGISTRATION,
                instance,
                instance_id=found.id,
                registrations=(registration.id,),
                reason=DELETED,
            )
            # Removed first: nothing is appended to it after the park.
            await self._registry.remove(registration, job)
            return self._pending.park(job, [registration])

    @completes
    async def rotate_secret(self, instance: str, label: str, grace: float) -> Registration:
        """Give a registration a new secret; earlier ones go on signing beside it.

        Args:
            grace: for how many seconds the old ones still sign at most; 0 ends them at once. See
                :func:`hookgw.records.registrations.in_grace`.
        """
        async with self._registry.changing_existing(instance):
            registration, now = self.get(instance, label), self._clock.wall()
            old = in_grace(registration.secrets_in_force(now), now, grace)
            secrets = (new_secret(registration.signature), *old)
            changed = msgspec.structs.replace(registration, secrets=secrets, updated_at=now)
            await self._pending.replace(registration, changed)
            return changed

    async def test(
        self,
        instance: str,
        label: str = DEFAULT_LABEL,
        *,
        kind: str | None = None,
        data_json: bytes | None = None,
    ) -> Attempt:
        """Send an event now, outside the lane. Return the attempt, which is not recorded.

        Args:
            kind: of the event; by default the first one that the registration wants.
            data_json: its payload; by default the example of the kind.

        Raises:
            Conflict: it is disabled, or a plugin filters the test event out.
        """
        registration = self.get(instance, label)
        if not registration.enabled:
            raise Conflict.of(
                "webhook.disabled_no_test",
                "The registration is disabled: enable it first (set enabled to true).",
            )
        if registration.is_pulled:
            raise Conflict.of(
                "webhook.fetched_no_test",
                "The receiver of this registration fetches: there is no URL to test. Emit an event instead.",
            )
        # Of a kind whose plugin is gone, no example is known.
        first = min(registration.events, key=lambda name: name not in self._catalog, default=_USUAL_KIND)
        chosen = self._catalog.resolve(first if kind is None else kind, "event", stored=True)
        at = self._clock.wall()
        event = Event(
            id=new_event_id(at),
            kind=chosen.name,
            instance=registration.instance,
            data_json=Event.encode(chosen.example) if data_json is None else data_json,
            time=at,
        )
        return await self.send_once(registration, event)

    async def send_once(self, registration: Registration, event: Event) -> Attempt:
        """Send an event now, outside any lane. Return the attempt, which is not recorded.

        Args:
            registration: says where and how to send it. It need not be stored.

        Raises:
            Conflict: a plugin filters the event out.
        """
        now = self._clock.steady()
        delivery = Delivery(
            seq=0,
            event=event,
            registration=registration.id,
            lane="",
            accepted_at=now,
            position=0,
            queued_at=now,
        )
        template = template_for(registration)
        try:
            rendered = self._sender.render_body(event, template)
            body = rendered if isinstance(rendered, bytes) else await rendered
            if body is None:
                raise Conflict.of(
                    "webhook.test_filtered", "A plugin filtered the event out, so nothing was sent."
                )
            headers = await self._sender.prepare(delivery, body, template, 1)
        except PluginFailed as failure:
            return self._sender.unsent(1, failure)
        # A separate connection: a test must not wait for the host's connections.
        transport = self._outbound.transport(template.origin[3])
        timeout = policy_of(registration, self._settings.delivery).timeout
        try:
            result = await self._sender.send(
                delivery, body, template, transport, number=1, timeout=timeout, headers=headers
            )
        except NoAttempt as failure:
            return self._sender.unsent(1, failure)
        finally:
            transport.close_nowait()
        return result.attempt
