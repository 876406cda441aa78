"""Everything that lasts. The rest of hookgw uses the Protocols and records only; no other code knows SQL."""

from hookgw.store.engines import open_storage as open_storage
from hookgw.store.protocol.backfills import Backfills as Backfills
from hookgw.store.protocol.history import History as History
from hookgw.store.protocol.outbox import Outbox as Outbox
from hookgw.store.protocol.outbox import StoreListener as StoreListener
from hookgw.store.protocol.pending_changes import PendingChanges as PendingChanges
from hookgw.store.protocol.records import Records as Records
from hookgw.store.protocol.store import AuditLog as AuditLog
from hookgw.store.protocol.store import Backups as Backups
from hookgw.store.protocol.store import Store as Store
from hookgw.store.records import *
from hookgw.store.sqlite.store import open_store as open_store
