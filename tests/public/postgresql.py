"""The public names of ``hookgw.store.postgresql``."""

from __future__ import annotations

from hookgw.store.postgresql import record_changes, schema
from hookgw.store.postgresql.audit import *
from hookgw.store.postgresql.changed_records import read_changes as read_changes
from hookgw.store.postgresql.database import *
from hookgw.store.postgresql.dead_letters import *
from hookgw.store.postgresql.environment import *
from hookgw.store.postgresql.erase import *
from hookgw.store.postgresql.feed import *
from hookgw.store.postgresql.held import *
from hookgw.store.postgresql.history import newest as newest
from hookgw.store.postgresql.moments import *
from hookgw.store.postgresql.nodes import FENCE as FENCE
from hookgw.store.postgresql.nodes import Nodes as Nodes
from hookgw.store.postgresql.record_changes import NOTE as NOTE
from hookgw.store.postgresql.record_changes import lock_records as lock_records
from hookgw.store.postgresql.repartition import LanePlace as LanePlace
from hookgw.store.postgresql.schema import *
from hookgw.store.postgresql.selection import search as search
from hookgw.store.postgresql.server import *
from hookgw.store.postgresql.server_errors import *
from hookgw.store.postgresql.shelves import PostgresqlTable as PostgresqlTable
from hookgw.store.postgresql.start_checks import *
from hookgw.store.postgresql.store import PostgresqlStore as PostgresqlStore
from hookgw.store.postgresql.store import open_store as open_store
from hookgw.store.postgresql.transaction import *
from hookgw.store.postgresql.writer import *

RECORD_CHANGES_VERSION = record_changes.VERSION
SCHEMA_VERSION = schema.VERSION
