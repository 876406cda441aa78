"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.store.sqlite.backup import *
from hookgw.store.sqlite.bulk import *
from hookgw.store.sqlite.checkpoints import *
from hookgw.store.sqlite.database import *
from hookgw.store.sqlite.dead_letters import find_pending as find_pending
from hookgw.store.sqlite.erase import *
from hookgw.store.sqlite.file_watch import CHECK_EVERY as CHECK_EVERY
from hookgw.store.sqlite.file_watch import DAMAGE_AGAIN as DAMAGE_AGAIN
from hookgw.store.sqlite.file_watch import LONG_LOG as LONG_LOG
from hookgw.store.sqlite.file_watch import RESCUE_AGAIN as RESCUE_AGAIN
from hookgw.store.sqlite.maintenance import *
from hookgw.store.sqlite.name_ids import *
from hookgw.store.sqlite.name_pruning import *
from hookgw.store.sqlite.open_file import *
from hookgw.store.sqlite.pending_changes import *
from hookgw.store.sqlite.pending_changes import SqlitePendingChanges as SqlitePendingChanges
from hookgw.store.sqlite.recent_events import RecentEvents as RecentEvents
from hookgw.store.sqlite.requeue import find_finished as find_finished
from hookgw.store.sqlite.requeue import resend as resend
from hookgw.store.sqlite.schema import *
from hookgw.store.sqlite.settle import make_due as make_due
from hookgw.store.sqlite.settle import weight as weight
from hookgw.store.sqlite.shelves import SqliteTable as SqliteTable
from hookgw.store.sqlite.store import SqliteStore as SqliteStore
from hookgw.store.sqlite.tally import newest as newest
from hookgw.store.sqlite.transaction import *
from hookgw.store.sqlite.writer import *
