"""The public names of ``hookgw.store``."""

from __future__ import annotations

from hookgw.store import *
from hookgw.store.commits.changes import *
from hookgw.store.commits.group_commit import *
from hookgw.store.commits.inline import *
from hookgw.store.commits.jobs import *
from hookgw.store.commits.read_failures import *
from hookgw.store.copying import *
from hookgw.store.delivery_searches import Bounds as Bounds
from hookgw.store.encryption import *
from hookgw.store.fleet import *
from hookgw.store.generations import *
from hookgw.store.history import *
from hookgw.store.history_rows import *
from hookgw.store.holdings import *
from hookgw.store.log import PRUNE_STEP as PRUNE_STEP
from hookgw.store.log import LogSearch as LogSearch
from hookgw.store.log import Sought as Sought
from hookgw.store.outbox import OUTBOX_PAGE_BYTES as OUTBOX_PAGE_BYTES
from hookgw.store.persons import *
from hookgw.store.protocol.outbox import *
from hookgw.store.shelves import RecordShelf as RecordShelf
from hookgw.store.shelves import ShelvedRecords as ShelvedRecords
from hookgw.store.shelves import Shelves as Shelves
