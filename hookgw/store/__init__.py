"""Everything that lasts. The rest of hookgw uses the Protocols and records only; no other code knows SQL."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names
from hookgw.store.engines import open_storage
from hookgw.store.protocol.backfills import Backfills
from hookgw.store.protocol.history import History
from hookgw.store.protocol.outbox import Outbox, StoreListener
from hookgw.store.protocol.pending_changes import PendingChanges
from hookgw.store.protocol.records import Records
from hookgw.store.protocol.store import AuditLog, Backups, Store
from hookgw.store.records import (
    Append,
    AuditPage,
    AuditQuery,
    BackfillQuery,
    BackfillStep,
    CancelQuery,
    CancelStep,
    Concerned,
    ConnectorState,
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    DeliverySummary,
    DiskSpace,
    Erased,
    EventPage,
    EventQuery,
    EventReport,
    Held,
    LaneBacklog,
    LoggedEvent,
    Missed,
    MissedPart,
    ParkStep,
    PendingChange,
    ReplayQuery,
    ReplayStep,
    SilentObserver,
    StoreObserver,
    StoreStatistics,
    Tally,
)
from hookgw.store.sqlite.store import open_store

if TYPE_CHECKING:
    from hookgw.store.public import *
else:
    __getattr__ = public_names(__name__)

__all__ = [
    "Append",
    "AuditLog",
    "AuditPage",
    "AuditQuery",
    "BackfillQuery",
    "BackfillStep",
    "Backfills",
    "Backups",
    "CancelQuery",
    "CancelStep",
    "Concerned",
    "ConnectorState",
    "DeliveryPage",
    "DeliveryQuery",
    "DeliveryReport",
    "DeliverySummary",
    "DiskSpace",
    "Erased",
    "EventPage",
    "EventQuery",
    "EventReport",
    "Held",
    "History",
    "LaneBacklog",
    "LoggedEvent",
    "Missed",
    "MissedPart",
    "Outbox",
    "ParkStep",
    "PendingChange",
    "PendingChanges",
    "Records",
    "ReplayQuery",
    "ReplayStep",
    "SilentObserver",
    "Store",
    "StoreListener",
    "StoreObserver",
    "StoreStatistics",
    "Tally",
    "open_storage",
    "open_store",
]
