"""What the audit says about a change of a record: the fields that differ, without secrets. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec

from hookgw.gateway.audit import Audit
from hookgw.models.api_keys import Key
from hookgw.models.audit import HOOKGW, AuditAction, AuditEntry, FieldChange
from hookgw.models.clock import rfc3339
from hookgw.models.instances import Instance
from hookgw.models.masking import without_user
from hookgw.models.registrations import Registration

# Fields whose names in the HTTP API are others than those of the record.
_NAMES = {
    "by_events": "webhookByEvents",
    "base64": "webhookBase64",
    "secrets": "secret",
    "ingest_token": "ingestUrl",
    "paused_at": "paused",
}
# Fields whose values are kept in the audit: none can be a secret.
_SHOWN = {
    "url",
    "events",
    "enabled",
    "paused_at",
    "ordering",
    "concurrency",
    "timeout",
    "rate",
    "integration",
}
# What follows from other fields, or says how it went.
_OF_REGISTRATION = {
    "id",
    "instance",
    "label",
    "generation",
    "disabled_reason",
    "failing_since",
    "fresh_since",
    "resumed_at",
    "created_at",
    "updated_at",
}
_OF_INSTANCE = {"name", "id", "keys", "connected", "disconnection", "created_at", "updated_at"}
MOST_FIELDS = 50
"""The most fields that an entry names."""
LONGEST = 512
"""Characters of a value, or of a field's name. Tenants choose both."""


def registration_changed(
    audit: Audit, old: Registration | None, new: Registration | None, instance: Instance | None
) -> list[AuditEntry]:
    """Return the entry of a created, changed or deleted registration; none if no field of a client changed.

    Args:
        audit: makes the entry.
        old, new: the record before and after; ``None`` if there is none. At least one is given.
        instance: its instance; ``None`` for a registration of the configuration.
    """
    present = new or old
    assert present is not None  # noqa: S101 -- the caller's promise
    if new is None:
        changes = [FieldChange("url", before=_text("url", present.url))]
        return [audit.entry(AuditAction.REGISTRATION_DELETE, instance, present.label, changes=changes)]
    if old is None:
        # The secret is always there, and new.
        blank = Registration(id="", instance="", url="", secrets=new.secrets)
        changes = _changes(blank, new, _OF_REGISTRATION)
        return [audit.entry(AuditAction.REGISTRATION_CREATE, instance, new.label, changes=changes)]
    changes = _changes(old, new, _OF_REGISTRATION)
    if not changes:
        return []
    details = {"reason": new.disabled_reason}
    return [
        audit.entry(AuditAction.REGISTRATION_CHANGE, instance, new.label, changes=changes, details=details)
    ]


def instance_changed(audit: Audit, old: Instance | None, new: Instance) -> list[AuditEntry]:
    """Return the entries of a created or changed instance, and of its keys; none if nothing changed."""
    if old is None:
        blank = Instance(name="", id="")
        return [audit.entry(AuditAction.INSTANCE_CREATE, new, changes=_changes(blank, new, _OF_INSTANCE))]
    entries = keys_changed(audit, old.keys, new.keys, new)
    changes = _changes(old, new, _OF_INSTANCE)
    if changes:
        entries.append(audit.entry(AuditAction.INSTANCE_CHANGE, new, changes=changes))
    if old.connected != new.connected:
        entries.append(
            audit.entry(AuditAction.INSTANCE_CONNECT if new.connected else AuditAction.INSTANCE_LOGOUT, new)
        )
    return entries


def keys_changed(
    audit: Audit, old: Iterable[Key], new: Iterable[Key], instance: Instance | None = None
) -> list[AuditEntry]:
    """Return the entries of keys that were created or revoked: of an instance, or global ones."""
    before, after = {key.hash: key for key in old}, {key.hash: key for key in new}
    entries = []
    for key_hash in before.keys() - after.keys():
        key = before[key_hash]
        entry = audit.entry(AuditAction.KEY_REVOKE, instance, key.name)
        if key.is_expired(entry.at):
            # Expired keys are removed when somebody creates another one, and who that is means nothing.
            entry = audit.entry(
                AuditAction.KEY_REVOKE,
                instance,
                key.name,
                details={"reason": "It had expired."},
                actor=HOOKGW,
            )
        entries.append(entry)
    for key_hash in after.keys() - before.keys():
        key = after[key_hash]
        expires = None if key.expires_at is None else rfc3339(key.expires_at)
        entries.append(
            audit.entry(AuditAction.KEY_CREATE, instance, key.name, details={"expiresAt": expires})
        )
    return entries


def _changes(old: msgspec.Struct, new: msgspec.Struct, ignored: Collection[str]) -> list[FieldChange]:
    found: list[FieldChange] = []
    for change in _differences(old, new, ignored):
        if len(found) == MOST_FIELDS:
            found.append(FieldChange("…"))
            break
        found.append(change)
    return found


def _differences(old: Any, new: Any, ignored: Collection[str], prefix: str = "") -> Iterator[FieldChange]:
    for field in new.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if field in ignored or before == after:
            continue
        name = prefix + _NAMES.get(field, _camel(field))
        if field in _SHOWN:
            yield FieldChange(name, _text(field, before), _text(field, after))
        elif isinstance(after, dict):
            # The names of headers and options, and none of their values.
            for key in sorted(before.keys() | after.keys()):
                if key not in before or key not in after or before[key] != after[key]:
                    yield FieldChange(f"{name}.{key}"[:LONGEST])
        elif isinstance(after, msgspec.Struct) and isinstance(before, msgspec.Struct):
            yield from _differences(before, after, (), f"{name}.")
        else:
            yield FieldChange(name)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _text(field: str, value: Any) -> str | None:
    """Return a value as the audit shows it; ``None`` for nothing."""
    if field == "events":
        text = ", ".join(value) or "all"
    elif field == "url":
        text = without_user(value)
    elif field == "paused_at":
        text = str(value is not None).lower()
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, Enum):
        text = str(value.value)
    else:
        text = "" if value is None else str(value)
    return text[:LONGEST] or None
