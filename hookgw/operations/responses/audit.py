"""Responses about the audit."""

from __future__ import annotations

from msgspec import Struct

from hookgw.kernel.schema_parts import Time
from hookgw.records.audit import ActorKind


class Actor(Struct, frozen=True, kw_only=True):
    """Who made a change.

    Attributes:
        kind: `key` for the holder of an API key; `hookgw` itself, a `plugin`, or the `configuration`.
        name: the name of the key or of the plugin; ``null`` for the others.
        instance: the instance that the key belongs to; ``null`` for a global key, and for the others.
        address: the client's IP address; ``null`` over a Unix socket and without a client, and for a global
            key if an instance's key asks.
        via: what the client used, for example `dashboard`; ``null`` for the HTTP API.
    """

    kind: ActorKind
    name: str | None
    instance: str | None
    address: str | None
    via: str | None


class FieldChange(Struct, frozen=True, kw_only=True):
    """A field that changed.

    Attributes:
        field: its name, with dots for a part of it, such as `headers.authorization`.
        before: its former value; ``null`` if there was none, or if the audit does not keep it.
        after: its new value; likewise.
    """

    field: str
    before: str | None
    after: str | None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change.

    Attributes:
        at: when it was made.
        action: what was done, such as `registration.change`.
        instance: the instance that it concerned; ``null`` for none.
        subject: the label of the registration, the name of the key or of the file, or the id of the delivery
            that it concerned; ``null`` for the instance itself.
        actor: who made it.
        changes: the fields that changed.
        details: further facts, such as the `reason`.
    """

    at: Time
    action: str
    instance: str | None
    subject: str | None
    actor: Actor
    changes: list[FieldChange]
    details: dict[str, str]


class AuditPage(Struct, frozen=True):
    """A page of the audit.

    Attributes:
        entries: the newest first.
        cursor: the cursor of the next page; ``null`` on the last one.
    """

    entries: list[AuditEntry]
    cursor: str | None
