"""Creates, connects and deletes instances."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

import msgspec
import outcome
import structlog
import trio

from hookgw.auth.keyring import Keyring, new_key
from hookgw.concurrency.clock import Clock
from hookgw.core.ingest_url import new_ingest_token, takes_requests
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry, accept_any
from hookgw.core.shielded import completes
from hookgw.instances.connectors.calls import calls_of
from hookgw.instances.connectors.outgoing_call import CUT_OFF
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.session import LOGGED_OUT, ConnectorSession
from hookgw.instances.connectors.states import LOGGED_OUT_HERE, ConnectionStates
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import (
    Conflict,
    Forbidden,
    HookgwError,
    Invalid,
    NotSupported,
    StorageUnavailable,
    Unavailable,
)
from hookgw.kernel.randomness import random_hex
from hookgw.kernel.sentences import Sentence
from hookgw.plugins.hooks import Hooks
from hookgw.records.api_keys import DEFAULT_KEY, LEAST_VALUE, NO_LIMITS, Key, Limits
from hookgw.records.connectors import ConnectionState, QRCode
from hookgw.records.instances import Disconnection, Instance, InstanceSettings, check_name
from hookgw.records.jobs import Job, JobKind
from hookgw.records.registrations import DEFAULT_LABEL, Registration
from hookgw.webhooks.change import RegistrationChange

_T = TypeVar("_T")

logger = structlog.get_logger("hookgw.instances")

LEAST_KEY = 8
"""The fewest characters of a key that an operator chooses."""

STORE_EVERY = 1.0
"""Seconds between two rounds of storing ends of connections: an account may come and go all the time."""

Check = Callable[[Instance], None]
"""See :func:`hookgw.core.registry.accept_any`."""


class CreatedInstance(NamedTuple):
    """A new instance; its key is stored only as a hash and cannot be shown again."""

    instance: Instance
    key: str
    registration: Registration | None


class InstanceService(Collaborator):
    """The calls that change instances, or show them.

    Every change raises ``StorageUnavailable`` if the disk refuses, and nothing has changed; and ``NotFound``
    if there is no such instance, as ``get`` and ``connection_state`` do.

    Attributes:
        find, get, all, count: see :class:`~hookgw.core.registry.Registry`.
        all_connectors, qr_code, ingest_url: see :class:`~hookgw.instances.connectors.runner.Connectors`.
        account, closing: see :class:`~hookgw.instances.connectors.states.ConnectionStates`.
    """

    _registry: Registry
    _keyring: Keyring
    _connectors: Connectors
    _states: ConnectionStates
    _pending: PendingDeliveries
    _hooks: Hooks
    _clock: Clock
    _jobs: Jobs

    def __post_init__(self) -> None:
        registry, connectors, states = self._registry, self._connectors, self._states
        self.find, self.get = registry.find_instance, registry.instance
        self.all, self.count = registry.instances, registry.count_instances
        self.all_connectors = connectors.all
        self.qr_code, self.ingest_url = connectors.qr_code, connectors.ingest_url
        self.account, self.closing = states.account, states.closing

    @property
    def connectors(self) -> list[str]:
        return self._connectors.names()

    def connection_state(self, name: str) -> ConnectionState:
        return self._states.state(self._registry.instance(name).name)

    def close_reason(self, name: str) -> str | None:
        """Return why an instance's connection is closed, in a sentence.

        ``None`` if it is not closed, or if the instance has no connector and no event reported a state.
        """
        reason, instance = self._states.close_reason(name), self.get(name)
        if reason is not None and instance.integration and not self._connectors.is_running(name):
            # Whatever has ended the connection: what keeps it closed comes first.
            return str(self._connectors.missing(instance) or reason)
        if reason is None and self._states.state(name) is ConnectionState.CLOSE:
            # Events over HTTP may be enough. Only a client that named a connector misses it.
            if not instance.integration and not instance.requested_integration:
                return None
            idle = "It has not been connected since hookgw started: connect it."
            return str(self._connectors.missing(instance) or idle)
        return reason

    def is_disconnected(self, name: str) -> bool:
        """Return whether an instance's connection has ended, and hookgw did not end it on purpose."""
        ended = self._states.disconnection(name)
        return ended is not None and not ended.is_over and ended.reason != LOGGED_OUT_HERE

    def codes_shown(self, name: str) -> int:
        """Return how many codes an instance's connector has shown since it began to connect."""
        session = self._states.sessions.get(name)
        return 0 if session is None else session.codes

    @completes
    async def create(
        self,
        name: str,
        *,
        integration: str = "",
        requested_integration: str = "",
        token: str | None = None,
        options: dict[str, Any] | None = None,
        settings: InstanceSettings | None = None,
        tags: Mapping[str, str] = MappingProxyType({}),
        limits: Limits = NO_LIMITS,
        is_operator: bool = True,
        own_options: Mapping[str, Any] = MappingProxyType({}),
        webhook: RegistrationChange | None = None,
        label: str = DEFAULT_LABEL,
    ) -> CreatedInstance:
        """Create an instance with its key, and its first registration, if one is given, in one commit.

        Args:
            integration: the connector's name; empty if events come only over HTTP.
            requested_integration: the name by which a client of Evolution API asked for the connector. Such
                clients send fields for Evolution API: options that the connector does not describe are left
                out.
            token: the key; ``None`` to generate one. Only an operator may choose a short one.
            limits: of the key.
            is_operator: whether the caller is one, who may set all options.
            own_options: those of every instance, by the names of the fields of the record.
            webhook: the first registration, with this label.

        Raises:
            Invalid: a bad name, token or integration; the options violate the connector's schema, or the
                connector refuses them; or a plugin refuses the registration's options.
            NetworkRefused: the connector could not check the options.
            Forbidden: the name is taken, or the token is another key.
            Conflict: a former instance of that name is still being deleted.
        """
        first = None
        if webhook is not None:
            first = webhook.apply(None, instance=name, label=label, now=self._clock.wall())
            first = first.switched(None, self._clock.steady())
            self._hooks.check_registration(first)
        check_name(name)
        self._connectors.check_integration(integration)
        rules = self._connectors.option_rules(integration)
        if requested_integration:
            options = rules.described(options or {})
        kept_options = rules.changed({}, options or {})
        rules.check(kept_options)
        if not is_operator and (reserved := rules.reserved({}, kept_options)):
            raise Forbidden.of(
                "instance.global_key_to_set",
                "{field} can be set only with a global key.",
                field=reserved[0],
            )
        await self._connectors.check_options(integration, kept_options)
        least = LEAST_KEY if is_operator else LEAST_VALUE
        if token and not (least <= len(token) <= 256 and token.isascii() and token.isprintable()):
            raise Invalid.of(
                "token.form", "token must be {least} to 256 printable ASCII characters.", least=least
            )
        key = token or new_key()
        async with self._registry.changing(name):
            # Within the lock: two requests may create the same name at once.
            if self._registry.find_instance(name) is not None:
                raise Forbidden.of("instance.name_taken", "The name {name!r} is already in use.", name=name)
            former = self._jobs.running(JobKind.DELETE_INSTANCE, name)
            if former is not None:
                raise Conflict.of(
                    "instance.being_deleted",
                    "An instance {name!r} is being deleted ({id}); try again when that has ended.",
                    name=name,
                    id=former.id,
                )
            # Claimed, so that no other instance gets the same chosen token during the write.
            unusable = Sentence(
                "token.unusable",
                "This token cannot be used. Choose another, or omit it to get a generated one.",
            )
            with self._keyring.claiming(key, unusable) as key_hash:
                now = self._clock.wall()
                first_key = Key(
                    name=DEFAULT_KEY,
                    hash=key_hash,
                    created_at=now,
                    **msgspec.structs.asdict(limits),
                )
                instance = Instance(
                    name=name,
                    id=str(uuid.UUID(random_hex(16), version=4)),
                    integration=integration,
                    requested_integration=requested_integration,
                    keys=(first_key,),
                    options=kept_options,
                    settings=settings or InstanceSettings(),
                    tags=dict(tags),
                    created_at=now,
                    updated_at=now,
                    **own_options,
                )
                instance = self._with_token(instance)
                await self._registry.put_instance(instance, first)
                self._keyring.add_instance(name, instance.keys)
        return CreatedInstance(instance, key, first)

    async def delete(self, name: str) -> Job:
        """Delete an instance with its registrations; their pending deliveries are parked.

        The instance is gone at once. Its name is free once the job has ended; until then its keys find the
        job, and nothing else. A later instance of that name begins with nothing: neither the key nor the
        events of this one are known to it.

        Return the job, which may still run; see :meth:`Jobs.wait`.
        """
        return await self._jobs.wait(await self._after_preparing("remove", name, self._delete))

    @completes
    async def _delete(self, name: str, instance_id: str) -> RunningJob:
        async with self._registry.changing_existing(name, instance_id=instance_id) as instance:
            await self._store_disconnected(instance)  # a disk that refuses says so before anything ends
            await self._connectors.stop(name)
            registrations = self._registry.of_instance(name)
            job = self._jobs.new(
                JobKind.DELETE_INSTANCE,
                name,
                instance_id=instance.id,
                registrations=tuple(registration.id for registration in registrations),
                reason="The instance was deleted.",
                keys=instance.keys,
            )
            await self._registry.remove_instance(self._registry.instance(name), job)
            self._states.forget(name)
            begin = partial(self.deletion, registrations=registrations)
            return self._jobs.start(job, begin, is_stored=True)

    def deletion(
        self, running: RunningJob, *, registrations: Sequence[Registration] = ()
    ) -> Callable[[], Awaitable[None]]:
        """Return the work of deleting an instance; see :class:`Jobs`."""
        name, keys = running.job.instance, running.job.keys
        self._keyring.add_instance(name, keys)  # after a restart they are unknown
        park = self._pending.parking(running, registrations=registrations)

        async def delete() -> None:
            await park()
            self._keyring.remove(name, keys)

        return delete

    async def connect(self, name: str, *, pairing_number: str | None = None) -> QRCode | None:
        """Start the instance's connector; it is started again after a restart of hookgw.

        A connector that still runs after it has reported a closed connection is restarted, so that the caller
        need not wait for its next try, or gets a new code.

        Args:
            name: of the instance.
            pairing_number: of the account, to get a code to type beside the code to scan.

        Returns:
            The code to scan; ``None`` if none is needed, or none came in time.

        Raises:
            Conflict: it has no connector.
            Unavailable: hookgw is shutting down, or the change took too long.
        """
        # Not part of the shielded change: a slow network must not block changes of the instance.
        return await self._connectors.wait_for_code(await self._connect(name, pairing_number))

    @completes
    async def _connect(self, name: str, number: str | None) -> ConnectorSession:
        async with self._registry.changing_existing(name):
            instance = await self.store_connected(self._with_connector(name))
            session = self._states.sessions.get(name)
            # Its code is for another number, or only to scan.
            is_other = session is not None and number not in (None, session.pairing_number)
            if self._connectors.is_closed(name) or (
                is_other and self._states.state(name) is not ConnectionState.OPEN
            ):
                return await self._connectors.restart(instance, pairing_number=number)
            return self._connectors.start(instance, pairing_number=number)

    def codes(self, among: Collection[str] | None = None) -> list[tuple[str, QRCode]]:
        """Return the instances here, of some or of all, that show a code to scan, with it."""
        sessions = self._states.sessions
        names = sessions if among is None else among
        shown = ((name, session.qr_code) for name in names if (session := sessions.get(name)) is not None)
        return [(name, code) for name, code in shown if code is not None]

    async def restart(self, name: str) -> None:
        """End the run of the instance's connector, and start it; wait a moment for the new connection.

        An instance that was not connected is connected.

        Raises:
            Conflict: it has no connector.
        """
        self._with_connector(name)
        session = await self._after_preparing("restart", name, self._restart)
        await self._connectors.wait_for_code(session)

    @completes
    async def _restart(self, name: str, instance_id: str) -> ConnectorSession:
        async with self._registry.changing_existing(name, instance_id=instance_id):
            instance = await self.store_connected(self._with_connector(name))
            return await self._connectors.restart(instance)

    async def logout(self, name: str) -> None:
        """Log the instance's account out, as far as its connector can, and end the connection.

        Raises:
            Conflict: it has no connector.
        """
        self._with_connector(name)
        await self._after_preparing("logout", name, self._logout)

    @completes
    async def _logout(self, name: str, instance_id: str) -> None:
        async with self._registry.changing_existing(name, instance_id=instance_id):
            instance, is_running = self._with_connector(name), self._connectors.is_running(name)
            ended = self._states.disconnection(name)
            if is_running:
                ended = Disconnection(at=self._clock.wall(), code=LOGGED_OUT, reason=LOGGED_OUT_HERE)
            elif ended is not None:
                ended = msgspec.structs.replace(ended, reason=LOGGED_OUT_HERE)
            await self._store_disconnected(instance, ended)
            await self._connectors.stop(name)
            self._states.logged_out_here(name)

    @completes
    async def rotate_ingest(self, name: str) -> str:
        """Give an instance a new ``ingestUrl``. The old one ends at once.

        A connector that tells its network the URL does so when it runs again.

        Raises:
            Conflict: it has no connector.
            NotSupported: its connector takes no requests of the network.
        """
        async with self._registry.changing_existing(name):
            instance = self._with_connector(name)
            if not takes_requests(self._connectors.find(instance)):
                raise NotSupported.of(
                    "ingest.not_supported",
                    "The connector {connector!r} takes no requests of its network.",
                    connector=instance.integration,
                )
            instance = await self._change(instance, ingest_token=new_ingest_token())
        url = self._connectors.ingest_url(instance)
        assert url is not None  # noqa: S101 -- the connector was checked above
        return url

    async def start_connected(self, concerns: Callable[[str], bool] = lambda _: True) -> None:
        """Start the connectors that ran when the process ended, if ``concerns`` accepts their instances."""
        known = set(self._connectors.names())
        for name in [one.name for one in self._registry.instances() if concerns(one.name)]:
            # As it is now: it may be changed, or deleted, while the token of an earlier one is stored.
            instance = self._registry.find_instance(name)
            if instance is not None and instance.disconnection is not None:
                self._states.restore(name, instance.disconnection)
            if instance is None or not instance.connected:
                continue
            if instance.integration not in known:
                logger.warning("no such connector", instance=name, connector=instance.integration)
                continue
            if self._with_token(instance) is not instance:
                # An update has brought the connector its method `ingest`.
                async with self._registry.changing(name):
                    instance = self._registry.find_instance(name)
                    if instance is None or not instance.connected:
                        continue
                    try:
                        instance = await self.store_connected(instance)
                    except StorageUnavailable as error:
                        logger.warning("no ingestUrl made", instance=name, reason=str(error))
            # A write ends also if the start is cancelled; the connectors' task has ended by then.
            await trio.lowlevel.checkpoint_if_cancelled()
            self._connectors.start(instance)

    @completes
    async def change_options(
        self,
        name: str,
        change: Mapping[str, Any],
        own_options: Mapping[str, Any] = MappingProxyType({}),
        *,
        is_operator: bool,
        check: Check = accept_any,
    ) -> Instance:
        """Change an instance's options. If that changes any of its connector, that starts again, if it runs.

        Args:
            own_options: new values of those of every instance, by the names of the fields of the record.
            change: new values; ``None`` removes an option, and a masked secret keeps its stored value.
            is_operator: whether the caller has a global key.
            check: see :data:`Check`.

        Raises:
            Conflict: it has no connector.
            Forbidden: only a global key may change one of these options.
            Invalid: the changed options violate the connector's schema, or the connector refuses them.
                Nothing was stored.
        """
        async with self._registry.changing_existing(name):
            instance = self._registry.instance(name)
            check(instance)
            if change or not own_options:
                self._with_connector(name)
            changed = msgspec.structs.replace(instance, **own_options)
            rules = self._connectors.option_rules(instance.integration)
            options = rules.changed(instance.options, change)
            rules.check(options)
            if not is_operator and (reserved := rules.reserved(instance.options, options)):
                # With these, a tenant could use a secret of the configuration for another account, or
                # have it sent to another server.
                raise Forbidden.of(
                    "instance.global_key_to_change",
                    "{field} can be changed only with a global key.",
                    field=reserved[0],
                )
            now, before = (msgspec.json.encode(one, order="sorted") for one in (options, instance.options))
            is_other = now != before  # as JSON: to Python, 1 and true are equal
            if is_other:
                await self._connectors.check_options(instance.integration, options)
                changed = msgspec.structs.replace(changed, options=options)
            if is_other or changed != instance:
                await self._put(changed)
                self._connectors.changed(changed)
                if is_other and self._connectors.is_running(name):
                    await self._connectors.restart(changed)
        return changed

    def masked_options(self, instance: Instance) -> dict[str, Any]:
        return self._connectors.option_rules(instance.integration).masked(instance.options)

    def option_warnings(self, instance: Instance) -> list[str]:
        """Return a warning for each option that an instance's connector does not know."""
        return self._connectors.option_rules(instance.integration).check(instance.options)

    def options_schema(self, instance: Instance) -> dict[str, Any] | None:
        """Return the JSON Schema of an instance's options; ``None`` if it may have any."""
        return self._connectors.option_rules(instance.integration).schema

    def connector_options_schema(self, integration: str) -> dict[str, Any] | None:
        """Return the JSON Schema of a connector's options; ``None`` if any are taken.

        Raises:
            Invalid: there is no such connector.
        """
        self._connectors.check_integration(integration)
        return self._connectors.option_rules(integration).schema

    async def change_settings(
        self, name: str, change: Mapping[str, Any], check: Check = accept_any
    ) -> list[str]:
        """Change the settings of an instance's account, and tell its connector, if it runs.

        Return a warning if the connector did not apply them. They are stored anyway, and its next run begins
        with them.
        """
        settings = await self._store_settings(name, change, check)
        # Outside of the lock: a slow network must not block changes of the instance.
        return await self._connectors.apply_settings(name, settings)

    @completes
    async def _store_settings(self, name: str, change: Mapping[str, Any], check: Check) -> InstanceSettings:
        async with self._registry.changing_existing(name) as instance:
            check(instance)
            settings = msgspec.structs.replace(instance.settings, **change)
            await self._change(instance, settings=settings)
        return settings

    @completes
    async def change_tags(self, name: str, tags: Mapping[str, str], check: Check = accept_any) -> Instance:
        """Replace all tags of an instance by valid ones."""
        async with self._registry.changing_existing(name) as instance:
            check(instance)
            return await self._change(instance, tags=dict(tags))

    async def set_presence(self, name: str, presence: str) -> None:
        """Show a presence for an instance's whole account.

        Raises:
            Conflict: it has no connector, or is not connected.
            NotSupported: its network has no presence.
            NetworkRefused: the network refused, or did not answer.
        """
        await self._connectors.set_presence(self._registry.instance(name), presence)

    def capabilities(self, name: str) -> list[str]:
        connector = self._connectors.find(self._registry.instance(name))
        return [] if connector is None else calls_of(connector)

    async def _after_preparing(
        self,
        method: Literal["restart", "logout", "remove"],
        name: str,
        change: Callable[[str, str], Awaitable[_T]],
    ) -> _T:
        """Let an instance's connector prepare its end, and then make the change, which gets name and id.

        Both go on if the caller is cancelled: a connector may have given up its account by then, and would
        hear of nothing any more.
        """
        instance = self._registry.instance(name)
        if not self._connectors.is_running(name):
            return await change(name, instance.id)
        results: list[outcome.Outcome[_T]] = []
        ended = trio.Event()

        async def prepare_and_change() -> None:
            try:
                await self._connectors.prepare(instance, method)
                results.append(outcome.Value(await change(name, instance.id)))
            except HookgwError as error:
                results.append(outcome.Error(error))
                ended.set()
                with suppress(HookgwError):  # hookgw is shutting down
                    await self._begin_anew(name, instance.id)
            finally:
                ended.set()

        self._connectors.start_task(prepare_and_change, f"{method} of {name}")
        await ended.wait()
        if not results:
            raise Unavailable(CUT_OFF())
        return results[0].unwrap()

    @completes
    async def _begin_anew(self, name: str, instance_id: str) -> None:
        """Restart a connector that has prepared its end, if it runs: it would hear of nothing any more."""
        async with self._registry.changing_existing(name, instance_id=instance_id) as instance:
            if self._connectors.is_running(name):
                await self._connectors.restart(instance)

    def _with_connector(self, name: str) -> Instance:
        instance = self._registry.instance(name)
        if missing := self._connectors.missing(instance):
            raise Conflict(missing)
        return instance

    def _with_token(self, instance: Instance) -> Instance:
        """Return an instance with a token for its ``ingestUrl``, if it needs one."""
        if instance.ingest_token or not takes_requests(self._connectors.find(instance)):
            return instance
        return msgspec.structs.replace(instance, ingest_token=new_ingest_token())

    async def store_connected(self, instance: Instance) -> Instance:
        """Store that an instance is connected, with the token of its ``ingestUrl``."""
        token = self._with_token(instance).ingest_token
        return await self._change(instance, connected=True, ingest_token=token)

    async def _change(self, instance: Instance, **fields: Any) -> Instance:
        """Store other values of some fields, unless they are the same, and tell the connector."""
        changed = msgspec.structs.replace(instance, **fields)
        if changed != instance:
            await self._put(changed)
            self._connectors.changed(changed)
        return changed

    async def _store_disconnected(self, instance: Instance, ended: Disconnection | None = None) -> None:
        ended = ended or instance.disconnection
        changed = msgspec.structs.replace(instance, connected=False, disconnection=ended)
        if changed != instance:
            await self._put(changed)

    async def store_disconnections(self) -> NoReturn:
        """Store the end of each connection with its instance, until cancelled."""
        while True:
            for name in await self._states.take_unstored():
                try:
                    async with self._registry.changing(name):
                        instance = self._registry.find_instance(name)
                        ended = self._states.disconnection(name)
                        if instance is None or ended is None or ended == instance.disconnection:
                            continue
                        changed = msgspec.structs.replace(instance, disconnection=ended)
                        await self._registry.put_instance(changed)
                        self._connectors.changed(changed)
                except StorageUnavailable as error:
                    # Or the instance moves to another node, which gets this node's report.
                    logger.debug("disconnection not stored yet", instance=name, reason=str(error))
                    if self._states.closing(name) is not None:
                        self._states.changed(name)
            await trio.sleep(STORE_EVERY)

    async def _put(self, instance: Instance) -> None:
        await self._registry.put_instance(msgspec.structs.replace(instance, updated_at=self._clock.wall()))

    async def logged_out(self, name: str, instance_id: str) -> None:
        """Note that a connector ended by itself, so that it is not started again with the gateway."""
        async with self._registry.changing(name):
            instance = self._registry.find_instance(name)
            if instance is None or instance.id != instance_id or self._connectors.is_running(name):
                return  # deleted, or connected again, while this waited for the lock
            try:
                await self._store_disconnected(instance, self._states.disconnection(name))
            except StorageUnavailable as error:
                logger.warning("logout not kept", instance=name, reason=str(error))
