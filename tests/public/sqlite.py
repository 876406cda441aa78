"""The public names of ``hookgw.store.sqlite``."""

from __future__ import annotations

from hookgw.store.sqlite.backup import *
from hookgw.store.sqlite.bulk import *
from hookgw.store.sqlite.checkpoints import *
from hookgw.store.sqlite.database import *
from hookgw.store.sqlite.erase import *
from hookgw.store.sqlite.file_watch import *
from hookgw.store.sqlite.history import newest as newest
from hookgw.store.sqlite.maintenance import *
from hookgw.store.sqlite.name_ids import *
from hookgw.store.sqlite.name_pruning import *
from hookgw.store.sqlite.open_file import *
from hookgw.store.sqlite.pending_changes import *
from hookgw.store.sqlite.pending_changes import SqlitePendingChanges as SqlitePendingChanges
from hookgw.store.sqlite.recent_events import RecentEvents as RecentEvents
from hookgw.store.sqlite.requeue import *
from hookgw.store.sqlite.schema import *
from hookgw.store.sqlite.selection import search as search
from hookgw.store.sqlite.selection import sizes_of as sizes_of
from hookgw.store.sqlite.settle import *
from hookgw.store.sqlite.shelves import SqliteTable as SqliteTable
from hookgw.store.sqlite.store import SqliteStore as SqliteStore
from hookgw.store.sqlite.transaction import *
from hookgw.store.sqlite.writer import *
