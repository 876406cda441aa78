"""The audit of changes, as plain records. No I/O."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hookgw.kernel.audited import FieldChange


class ActorKind(StrEnum):
    """What kind of actor made a change."""

    KEY = "key"
    HOOKGW = "hookgw"
    PLUGIN = "plugin"
    CONFIGURATION = "configuration"


class AuditAction(StrEnum):
    """A resource and the change to it. docs/http.md lists the subjects."""

    INSTANCE_CREATE = "instance.create"
    INSTANCE_CHANGE = "instance.change"
    INSTANCE_CONNECT = "instance.connect"
    INSTANCE_LOGOUT = "instance.logout"
    INSTANCE_DELETE = "instance.delete"
    REGISTRATION_CREATE = "registration.create"
    REGISTRATION_CHANGE = "registration.change"
    REGISTRATION_DELETE = "registration.delete"
    REGISTRATION_BACKFILL = "registration.backfill"
    KEY_CREATE = "key.create"
    KEY_REVOKE = "key.revoke"
    PORTAL_LINK = "portal.link"
    PORTAL_OPEN = "portal.open"
    STORAGE_BACKUP = "storage.backup"
    CONFIGURATION_RELOAD = "configuration.reload"
    DELIVERY_RESEND = "delivery.resend"
    DELIVERY_REPLAY = "delivery.replay"
    DELIVERY_CANCEL = "delivery.cancel"
    EVENT_ERASE = "event.erase"
    JOB_PAUSE = "job.pause"
    JOB_RESUME = "job.resume"
    JOB_CANCEL = "job.cancel"
    PROBLEM_MUTE = "problem.mute"
    PROBLEM_UNMUTE = "problem.unmute"


class Actor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made a change.

    Attributes:
        name: of the key, or of the plugin; empty for hookgw and the configuration.
        instance: the instance that the key belongs to; ``None`` for a global key and for all others.
        address: the IP address of the client; ``None`` over a Unix socket, and without a client.
        via: what the client used, for example ``dashboard``; empty for the HTTP API.
        person: whom a trusted proxy named as the client (``auth.proxy_header``); empty for nobody.
        is_limited: whether the key has a reach: then its name is no secret of the operator's.
    """

    kind: ActorKind
    name: str = ""
    instance: str | None = None
    address: str | None = None
    via: str = ""
    person: str = ""
    is_limited: bool = False


def who(actor: Actor) -> str:
    """Return an actor in words, without an address: not everybody who sees this may know it."""
    if actor.kind in (ActorKind.HOOKGW, ActorKind.CONFIGURATION):
        return actor.kind.value
    instance = f" of {actor.instance}" if actor.instance else ""
    return f"{actor.kind} {actor.name}{instance}" + (f", {actor.via}" if actor.via else "")


HOOKGW = Actor(kind=ActorKind.HOOKGW)
CONFIGURATION = Actor(kind=ActorKind.CONFIGURATION)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change.

    Attributes:
        at: in seconds since the epoch.
        action: an :class:`AuditAction`, or an action of another version of hookgw.
        instance: the name of the instance concerned; ``None`` for none.
        instance_id: the id of that instance, because a later one may have the same name.
        subject: the label of a registration, the name of a key or of a file, the id of a delivery; ``None``
            for the instance itself.
        details: further facts, for example the reason.
    """

    at: float
    action: str
    actor: Actor
    instance: str | None = None
    instance_id: str | None = None
    subject: str | None = None
    changes: tuple[FieldChange, ...] = ()
    details: dict[str, str] = {}
