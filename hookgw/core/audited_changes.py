"""The audit entries of a changed record: the fields that differ, without secrets. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hookgw.core.audit import Audit
from hookgw.kernel.audited import LONGEST, Audited, FieldChange, changes_of
from hookgw.kernel.fields import Field
from hookgw.kernel.masking import without_user
from hookgw.records.api_keys import Key
from hookgw.records.audit import HOOKGW, AuditAction, AuditEntry
from hookgw.records.instances import Instance
from hookgw.records.registrations import Registration


class AuditedFields(NamedTuple):
    """The fields whose changes the audit shows, from the tables of the slices."""

    registrations: Audited
    instances: Audited
    keys: Sequence[Field]


def registration_changed(
    audit: Audit,
    audited: Audited,
    old: Registration | None,
    new: Registration | None,
    instance: Instance | None,
) -> list[AuditEntry]:
    """Return the entry of a created, changed or deleted registration; none if no client's field changed.

    At least one of ``old`` and ``new`` is given. Only a registration of the configuration has no instance.
    """
    present = new or old
    assert present is not None  # noqa: S101 -- the caller's promise
    if new is None:
        changes = [FieldChange("url", before=without_user(present.url)[:LONGEST] or None)]
        return [audit.entry(AuditAction.REGISTRATION_DELETE, instance, present.label, changes=changes)]
    if old is None:
        # The secret is always there, and new.
        blank = Registration(id="", instance="", url="", secrets=new.secrets)
        changes = changes_of(blank, new, audited)
        return [audit.entry(AuditAction.REGISTRATION_CREATE, instance, new.label, changes=changes)]
    changes = changes_of(old, new, audited)
    if not changes:
        return []
    details = {"reason": new.disabled_reason}
    return [
        audit.entry(AuditAction.REGISTRATION_CHANGE, instance, new.label, changes=changes, details=details)
    ]


def instance_changed(
    audit: Audit, audited: AuditedFields, old: Instance | None, new: Instance
) -> list[AuditEntry]:
    """Return the entries of a created or changed instance, and of its keys; none if nothing changed."""
    if old is None:
        blank = Instance(name="", id="")
        return [
            audit.entry(AuditAction.INSTANCE_CREATE, new, changes=changes_of(blank, new, audited.instances))
        ]
    entries = keys_changed(audit, audited.keys, old.keys, new.keys, new)
    changes = changes_of(old, new, audited.instances)
    if changes:
        entries.append(audit.entry(AuditAction.INSTANCE_CHANGE, new, changes=changes))
    if old.connected != new.connected:
        entries.append(
            audit.entry(AuditAction.INSTANCE_CONNECT if new.connected else AuditAction.INSTANCE_LOGOUT, new)
        )
    return entries


def keys_changed(
    audit: Audit,
    fields: Sequence[Field],
    old: Iterable[Key],
    new: Iterable[Key],
    instance: Instance | None = None,
) -> list[AuditEntry]:
    """Return the entries of keys that were created or revoked: of an instance, or global ones."""
    before, after = {key.hash: key for key in old}, {key.hash: key for key in new}
    entries = []
    for key_hash in before.keys() - after.keys():
        key = before[key_hash]
        entry = audit.entry(AuditAction.KEY_REVOKE, instance, key.name)
        if key.is_expired(entry.at):
            # Expired keys are removed when another key is created, whoever creates that.
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
        shown = {one.json: one.audit(getattr(key, one.attribute)) or None for one in fields if one.audit}
        entries.append(audit.entry(AuditAction.KEY_CREATE, instance, key.name, details=shown))
    return entries
