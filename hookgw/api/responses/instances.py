"""Responses about instances and their connections."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from hookgw.api.responses.common import Backlog, Time
from hookgw.api.responses.registrations import Registration
from hookgw.models.connectors import ConnectionState


class Instance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance, with the field names that existing clients read.

    Attributes:
        instance_name: its name.
        instance_id: a UUID.
        integration: the connector's name; ``null`` if events come only over HTTP.
        status: the state of its connection.
        created_at: when it was created.
        options: those of its connector, secrets masked; missing without a connector.
    """

    instance_name: str
    instance_id: str
    integration: str | None
    status: ConnectionState
    created_at: Time
    options: dict[str, Any] | UnsetType = UNSET


class ListedInstance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance in a list: older clients read ``instance``, newer ones the rest.

    Attributes:
        id: a UUID.
        name: its name.
        connection_status: the state of its connection.
        disconnection_reason: why the state is `close`.
        backlog: what is pending of its events.
        instance: the same instance, for older clients.
        ingest_url: where the network may call hookgw. Its last part is a secret.
    """

    id: str
    name: str
    connection_status: ConnectionState
    backlog: Backlog
    instance: Instance
    disconnection_reason: str | UnsetType = UNSET
    ingest_url: str | UnsetType = UNSET


class CreatedInstance(Struct, kw_only=True, rename="camel"):
    """A new instance.

    Attributes:
        instance: the instance.
        hash: its key, which is shown only here.
        ingest_url: where the network may call hookgw, if its connector takes calls.
        webhook: its registration, if the request had one.
        warnings: fields of the request that were ignored, if there is no `webhook` that lists them.
    """

    instance: Instance
    hash: str
    ingest_url: str | UnsetType = UNSET
    webhook: Registration | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class NamedState(Struct, frozen=True, rename="camel"):
    """An instance's connection.

    Attributes:
        instance_name: the instance's name.
        state: the state of the connection.
        reason: why the state is `close`.
    """

    instance_name: str
    state: ConnectionState
    reason: str | UnsetType = UNSET


class Connection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a connection, with a QR code if there is one to scan.

    Attributes:
        instance: the state.
        code: the text in the QR code.
        base64: the image, as a ``data:image/png;base64,…`` URL.
        pairing_code: a code to type instead of scanning.
        ingest_url: where the network may call hookgw, if its connector takes calls.
    """

    instance: NamedState
    code: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    pairing_code: str | UnsetType | None = UNSET
    ingest_url: str | UnsetType = UNSET


class IngestUrl(Struct, frozen=True, rename="camel"):
    """Where the network may call hookgw for an instance.

    Attributes:
        ingest_url: the URL; without `server.public_url`, its path. Its last part is a secret.
    """

    ingest_url: str
