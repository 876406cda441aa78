"""Everything that lasts. The rest of hookgw uses the Protocols and records only; no other code knows SQL."""

from hookgw.store.protocol import History, Outbox, PendingChanges, Records, Store, StoreListener
from hookgw.store.records import (
    Append,
    ConnectorState,
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    DeliverySummary,
    DiskSpace,
    EventPage,
    LaneBacklog,
    ParkStep,
    PendingChange,
    ReplayQuery,
    ReplayStep,
    SilentObserver,
    StoreObserver,
    StoreStatistics,
)
from hookgw.store.sqlite.store import open_store

__all__ = [
    "Append",
    "ConnectorState",
    "DeliveryPage",
    "DeliveryQuery",
    "DeliveryReport",
    "DeliverySummary",
    "DiskSpace",
    "EventPage",
    "History",
    "LaneBacklog",
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
    "open_store",
]
