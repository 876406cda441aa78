"""Setting, deleting and trying out registrations."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.sender import DeliverySender, template_for
from hookgw.dispatch.retry_policy import policy_of
from hookgw.gateway.keeper import Keeper
from hookgw.gateway.registry import Registry
from hookgw.models.clock import Clock
from hookgw.models.deliveries import Attempt, Delivery
from hookgw.models.errors import Conflict, Invalid, NotFound, PluginFailed
from hookgw.models.events import Catalog, Event, new_event_id
from hookgw.models.registrations import Registration, RegistrationChange, in_grace, new_secret
from hookgw.plugins.hooks import Hooks

MOST_REGISTRATIONS = 16
"""Of one instance."""
_USUAL_KIND = "MESSAGES_UPSERT"


class RegistrationService:
    """What can be done to registrations; the arguments are the gateway's own parts.

    ``transport`` makes a connection for a test; ``RegistrationService`` closes it.
    """

    def __init__(
        self,
        registry: Registry,
        keeper: Keeper,
        hooks: Hooks,
        catalog: Catalog,
        courier: DeliverySender,
        transport: Callable[[], LaneTransport],
        clock: Clock,
        settings: DeliverySettings,
    ) -> None:
        self._registry = registry
        self._keeper = keeper
        self._hooks = hooks
        self._catalog = catalog
        self._courier = courier
        self._transport = transport
        self._clock = clock
        self._settings = settings

    def new(self, instance: str, label: str, change: RegistrationChange) -> Registration:
        """The registration that :meth:`set` would store, for an instance that is new; nothing is stored.

        Raises:
            Invalid: a plugin refuses its options.
        """
        new = change.apply(None, instance=instance, label=label, now=self._clock.wall())
        self._hooks.check_registration(new)
        return new

    async def set(self, instance: str, label: str, change: RegistrationChange) -> Registration:
        """Store a registration, new or changed.

        Raises:
            Invalid: a plugin refuses its options, or the instance has too many registrations.
        """
        async with self._registry.changing(instance):
            self._registry.instance(instance)
            old = self._registry.find(instance, label)
            if old is None and len(self._registry.of_instance(instance)) >= MOST_REGISTRATIONS:
                raise Invalid(
                    f"An instance has at most {MOST_REGISTRATIONS} registrations; delete one first."
                )
            new = change.apply(old, instance=instance, label=label, now=self._clock.wall())
            self._hooks.check_registration(new)
            if old is None:
                await self._registry.put(new)
            else:
                await self._keeper.replace(old, new)
            return new

    async def delete(self, instance: str, label: str) -> None:
        """Delete a registration; what is pending for it is parked.

        Raises:
            NotFound: there is none.
        """
        async with self._registry.changing(instance):
            registration = self.find(instance, label)
            await self._registry.remove(registration)
            await self._keeper.park(registration, "The registration was deleted.")

    async def rotate_secret(self, instance: str, label: str, grace: float) -> Registration:
        """Give a registration a new secret; those before it go on signing beside it.

        Args:
            instance, label: the registration.
            grace: for how long the old ones still sign at most, in seconds; 0 ends them at once. See
                :func:`hookgw.models.registrations.in_grace`.

        Raises:
            NotFound: there is no such registration.
        """
        async with self._registry.changing(instance):
            registration, now = self.find(instance, label), self._clock.wall()
            old = in_grace(registration.secrets_in_force(now), now, grace)
            secrets = (new_secret(registration.signature), *old)
            changed = msgspec.structs.replace(registration, secrets=secrets, updated_at=now)
            await self._registry.put(changed)
            return changed

    async def test(self, instance: str, label: str) -> Attempt:
        """Send an example event now, outside the lane, and tell what came of it.

        Raises:
            NotFound: there is no such registration.
            Conflict: it is disabled.
        """
        registration = self.find(instance, label)
        if not registration.enabled:
            raise Conflict("The registration is disabled; set it with enabled true first.")
        event = self._example(registration)
        try:
            body = await self._courier.render_body(event, registration)
        except PluginFailed as failure:
            return self._courier.failed(1, failure)
        if body is None:
            raise Conflict("A plugin filters the test event out, so nothing was sent.")
        return await self._send(event, body, registration)

    async def _send(self, event: Event, body: bytes, registration: Registration) -> Attempt:
        policy = policy_of(registration, self._settings)
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
        transport = self._transport()
        try:
            sent = await self._courier.send(
                delivery, body, template_for(registration), transport, number=1, timeout=policy.timeout
            )
        finally:
            transport.close_nowait()
        return sent.attempt

    def _example(self, registration: Registration) -> Event:
        wanted = (self._catalog.get(name) for name in registration.events)
        kind = next((kind for kind in wanted if kind), None) or self._catalog.resolve(_USUAL_KIND, "event")
        return Event(
            id=new_event_id(),
            kind=kind.name,
            instance=registration.instance,
            data_json=Event.encode(kind.example),
            time=self._clock.wall(),
        )

    def find(self, instance: str, label: str) -> Registration:
        """The registration of that label.

        Raises:
            NotFound: there is none.
        """
        registration = self._registry.find(instance, label)
        if registration is None:
            raise NotFound(f"The instance {instance!r} has no webhook {label!r}; set one first.")
        return registration
