"""Everything that lasts: one SQLite file behind a narrow face. Nothing outside knows SQL."""

from hookgw.store.protocol import Outbox
from hookgw.store.records import (
    Append,
    DeliveryQuery,
    DeliveryReport,
    DeliverySummary,
    LaneBacklog,
    ReplayQuery,
    SilentObserver,
    StoreObserver,
    StoreStatistics,
)
from hookgw.store.sqlite.shelves import RecordShelf, Shelves
from hookgw.store.sqlite.store import Store, open_store
from hookgw.store.sqlite.transaction import Transaction

__all__ = [
    "Append",
    "DeliveryQuery",
    "DeliveryReport",
    "DeliverySummary",
    "LaneBacklog",
    "Outbox",
    "RecordShelf",
    "ReplayQuery",
    "Shelves",
    "SilentObserver",
    "Store",
    "StoreObserver",
    "StoreStatistics",
    "Transaction",
    "open_store",
]
