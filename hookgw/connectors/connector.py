"""What connectors have in common: the hooks, the operator's defaults, and who is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec
import trio

from hookgw.kernel.errors import Invalid, NetworkRefused
from hookgw.kernel.sentences import Sentence
from hookgw.plugins.hookspecs import hookimpl
from hookgw.records.connectors import ConnectionState, Connector, Session

Connection = TypeVar("Connection")
Options = TypeVar("Options")
State = TypeVar("State", bound=msgspec.Struct)


class Connections(Generic[Connection]):
    """The connections of the instances that run.

    Args:
        refusal: the message for a call of an instance that is not connected.
    """

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self._found: dict[str, Connection] = {}

    @contextmanager
    def joined(self, session: Session, connection: Connection) -> Iterator[Connection]:
        """Keep a connection for the length of the block, which is a run of its instance."""
        self._found[session.instance] = connection
        try:
            yield connection
        finally:
            # The next run may have begun.
            if self._found.get(session.instance) is connection:
                del self._found[session.instance]

    def get(self, session: Session) -> Connection | None:
        """Return the connection of an instance, or ``None`` if it is not connected."""
        return self._found.get(session.instance)

    def of(self, session: Session) -> Connection:
        """Return the connection of an instance.

        Raises:
            NetworkRefused: it is not connected.
        """
        if (found := self.get(session)) is None:
            raise NetworkRefused(self._refusal, status=HTTPStatus.CONFLICT)
        return found


class NetworkConnector(Generic[Connection]):
    """The base of a connector. Its module has the hooks: ``hookgw_connectors = Chat().hookgw_connectors``.

    The options of an instance may have defaults in the configuration, ``plugins.options.<name>``, if a
    subclass names them. hookgw then needs the other three hooks, too.

    Attributes:
        name: the instances' ``integration``.
        options_schema: a JSON Schema of an instance's options.
        default_names: the options that the configuration may set.
        not_connected: the message for a call of an instance that is not connected.
        defaults: what the configuration has set.
        connections: of the instances that run.
    """

    name: str
    options_schema: dict[str, Any]
    default_names: ClassVar[tuple[str, ...]] = ()
    not_connected: str = Sentence("connector.not_connected", "The instance is not connected.")

    def __init__(self) -> None:
        self.defaults: Mapping[str, Any] = {}
        self.connections: Connections[Connection] = Connections(self.not_connected)

    def check_defaults(self, options: dict[str, Any]) -> Mapping[str, Any]:
        """Return the options of the configuration as :meth:`set_defaults` takes them.

        Raises:
            ValueError: an unknown name, a wrong type or an impossible value; the message names it.
        """
        return options

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Set the options that an instance does not set itself; its next run takes them."""
        self.options_schema = schema_with(type(self).options_schema, defaults)
        # Also here, because the schema has no secrets, and hookgw reads it once.
        self.defaults = defaults

    @hookimpl
    def hookgw_configure(self, options: dict[str, Any]) -> None:
        """Set the options of all instances that do not set them themselves."""
        self.set_defaults(self.check_defaults(options))

    @hookimpl
    def hookgw_reconfigure(self, options: dict[str, Any]) -> Callable[[], None]:
        """Check other defaults; instances use them when they connect the next time."""
        return partial(self.set_defaults, self.check_defaults(options))

    @hookimpl
    def hookgw_secret_options(self) -> list[str]:
        """Say what is masked in messages and tracebacks: the secrets that the configuration may have."""
        described = type(self).options_schema["properties"]
        return [name for name in self.default_names if described.get(name, {}).get("writeOnly")]

    @hookimpl
    def hookgw_connectors(self) -> list[Connector]:
        """Provide this connector."""
        return [cast("Connector", self)]


def schema_with(schema: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return an options schema with the operator's defaults, but for secrets, which it would show."""
    properties = {
        name: {**described, "default": defaults[name]}
        if name in defaults and not described.get("writeOnly")
        else described
        for name, described in schema["properties"].items()
    }
    return {**schema, "properties": properties}


async def read_or_close(session: Session, read: Callable[[], Options]) -> Options:
    """Return an instance's options at the beginning of a run.

    They may be wrong, although they were checked: the instance was imported, or the configuration has
    changed. The connection is closed then, with the reason, until the run is cancelled: a change of the
    options, or a start with another configuration, begins the next one. To return would mean a logout.

    Args:
        session: of the instance.
        read: returns the options, or raises ``Invalid``.
    """
    try:
        return read()
    except Invalid as error:
        await session.set_state(ConnectionState.CLOSE, HTTPStatus.BAD_REQUEST, message=str(error))
        await trio.sleep_forever()


async def load_state(session: Session, as_type: type[State]) -> State:
    """Return what an instance's last run saved, or a new record if there is none, or it has another form."""
    try:
        return msgspec.convert(await session.load_state() or {}, as_type)
    except msgspec.ValidationError:
        return as_type()


async def save_state(session: Session, state: msgspec.Struct) -> None:
    """Keep a record for the next run."""
    await session.save_state(msgspec.to_builtins(state))
