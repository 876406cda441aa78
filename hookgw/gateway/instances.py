"""Creating, connecting and deleting instances."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import structlog

from hookgw.auth.keyring import Keyring, new_key
from hookgw.gateway.connectors.runner import Connectors
from hookgw.gateway.keeper import Keeper
from hookgw.gateway.registry import Registry
from hookgw.models.api_keys import DEFAULT_KEY, Key
from hookgw.models.clock import Clock
from hookgw.models.connectors import QRCode
from hookgw.models.errors import Conflict, Forbidden, Invalid, StorageUnavailable
from hookgw.models.instances import Instance, check_name
from hookgw.models.registrations import Registration

logger = structlog.get_logger("hookgw.instances")

_LEAST_KEY = 8


class InstanceService:
    """What can be done to instances; the arguments are the gateway's own parts."""

    def __init__(
        self, registry: Registry, keyring: Keyring, connections: Connectors, keeper: Keeper, clock: Clock
    ) -> None:
        self._registry = registry
        self._keyring = keyring
        self._connections = connections
        self._keeper = keeper
        self._clock = clock
        connections.on_logged_out = self._logged_out

    async def create(
        self,
        name: str,
        *,
        integration: str = "",
        token: str | None = None,
        options: dict[str, Any] | None = None,
        first: Registration | None = None,
    ) -> tuple[Instance, str]:
        """Create an instance and its key.

        Args:
            name: of the instance.
            integration: the connector's name; empty where events come by HTTP alone.
            token: its key; one is made where none is given.
            options: for the connector.
            first: a registration that it has from the beginning: both are on disk, or neither is.

        Returns:
            The instance, and its key, which is not kept and cannot be shown again.

        Raises:
            Invalid: a bad name, token or integration.
            Forbidden: the name, or the token as somebody's key, is taken.
        """
        check_name(name)
        self._connections.check_integration(integration)
        key = _checked_key(token)
        async with self._registry.changing(name):
            if self._registry.find_instance(name) is not None:
                raise Forbidden(f"The name {name!r} is taken by another instance.")
            with self._keyring.claiming(key) as key_hash:
                now = self._clock.wall()
                instance = Instance(
                    name=name,
                    id=str(uuid.uuid4()),
                    integration=integration,
                    keys=(Key(name=DEFAULT_KEY, hash=key_hash, created_at=now),),
                    options=options or {},
                    created_at=now,
                )
                await self._registry.put_instance(instance, first)
                self._keyring.add_instance(name, instance.keys)
        return instance, key

    async def delete(self, name: str) -> None:
        """Delete an instance with its registrations; what is pending for them is parked.

        A later instance of that name begins with nothing: neither the key nor the events of this one
        are known to it.

        Raises:
            NotFound: there is none.
        """
        async with self._registry.changing(name):
            instance = self._registry.instance(name)
            await self._set_connected(instance, False)  # a disk that refuses says so before anything ends
            await self._connections.stop(name)
            for registration in self._registry.of_instance(name):
                await self._registry.remove(registration)
                await self._keeper.park(registration, "The instance was deleted.")
            await self._registry.remove_instance(instance)
            self._keyring.remove(name, instance.keys)
            self._connections.forget(name)

    async def connect(self, name: str) -> QRCode | None:
        """Start the instance's connector; it is started again after a restart.

        Raises:
            NotFound: there is no such instance.
            Conflict: it has no connector.
        """
        async with self._registry.changing(name):
            instance = self._with_connector(name)
            await self._set_connected(instance, True)
            session = self._connections.start(instance)
        return await self._connections.wait_for_code(session)

    async def logout(self, name: str) -> None:
        """End the instance's connection.

        Raises:
            NotFound: there is no such instance.
            Conflict: it has no connector.
        """
        async with self._registry.changing(name):
            await self._set_connected(self._with_connector(name), False)
            await self._connections.stop(name)

    def start_connected(self) -> None:
        """Start the connectors that ran when the process ended; a connector that is gone is passed over."""
        known = set(self._connections.names())
        for instance in self._registry.instances():
            if not instance.connected:
                continue
            if instance.integration in known:
                self._connections.start(instance)
            else:
                logger.warning("no such connector", instance=instance.name, connector=instance.integration)

    def _with_connector(self, name: str) -> Instance:
        instance = self._registry.instance(name)
        if not instance.integration:
            raise Conflict(f"The instance {name!r} has no connector: its events come by HTTP alone.")
        try:
            self._connections.check_integration(instance.integration)
        except Invalid as error:
            raise Conflict(*error.messages) from None
        return instance

    async def _set_connected(self, instance: Instance, connected: bool) -> None:
        if instance.connected != connected:
            await self._registry.put_instance(msgspec.structs.replace(instance, connected=connected))

    async def _logged_out(self, name: str) -> None:
        """Keep that a connector ended by itself: it is not started again with the gateway."""
        async with self._registry.changing(name):
            instance = self._registry.find_instance(name)
            if instance is None or self._connections.is_running(name):
                return
            try:
                await self._set_connected(instance, False)
            except StorageUnavailable as error:
                logger.warning("logout not kept", instance=name, reason=str(error))


def _checked_key(token: str | None) -> str:
    if token is None or token == "":
        return new_key()
    if len(token) < _LEAST_KEY or len(token) > 256 or not token.isascii() or not token.isprintable():
        raise Invalid(f"token must be {_LEAST_KEY} to 256 printable ASCII characters.")
    return token
