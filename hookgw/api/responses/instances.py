"""Answers about instances and their connections."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.api.responses.common import Time
from hookgw.api.responses.registrations import Registration
from hookgw.models.connectors import ConnectionState


class Instance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance, in the names that clients of such gateways read.

    Attributes:
        instance_name: its name.
        instance_id: a UUID.
        integration: the connector's name; ``null`` where events come by HTTP alone.
        status: of its connection.
        created_at: when it was made.
    """

    instance_name: str
    instance_id: str
    integration: str | None
    status: ConnectionState
    created_at: Time


class ListedInstance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance in a list: older clients read ``instance``, newer ones the rest.

    Attributes:
        id: a UUID.
        name: its name.
        connection_status: of its connection.
        instance: the same in the older form.
    """

    id: str
    name: str
    connection_status: ConnectionState
    instance: Instance


class CreatedInstance(Struct, kw_only=True):
    """An instance that was just made.

    Attributes:
        instance: itself.
        hash: its key, which is shown only here.
        webhook: its registration, where one was asked for.
        warnings: what was ignored of the request, where no registration says it.
    """

    instance: Instance
    hash: str
    webhook: Registration | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class NamedState(Struct, frozen=True, rename="camel"):
    """An instance's connection.

    Attributes:
        instance_name: the instance's name.
        state: what the connection is doing.
    """

    instance_name: str
    state: ConnectionState


class Connection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a connection, with a QR code where there is one to scan.

    Attributes:
        instance: the state.
        code: the text in the QR code.
        base64: its picture, as a ``data:image/png;base64,…`` URL.
        pairing_code: what can be typed in its place.
    """

    instance: NamedState
    code: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    pairing_code: str | UnsetType | None = UNSET
