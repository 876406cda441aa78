"""The fields of every slice whose changes the audit shows."""

from __future__ import annotations

from hookgw.core.audited_changes import AuditedFields
from hookgw.instances import fields as instances
from hookgw.keys import fields as keys
from hookgw.webhooks import fields as webhooks

AUDITED = AuditedFields(webhooks.AUDITED, instances.AUDITED, keys.FIELDS)
