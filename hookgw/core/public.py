"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.core.access import *
from hookgw.core.audit import *
from hookgw.core.audited_changes import *
from hookgw.core.background_output import BackgroundOutput as BackgroundOutput
from hookgw.core.background_output import LineCount as LineCount
from hookgw.core.backlog import *
from hookgw.core.backlog_limits import *
from hookgw.core.browser_sessions import *
from hookgw.core.disk_space import *
from hookgw.core.ingest_url import *
from hookgw.core.keyed_locks import *
from hookgw.core.keyring_loading import *
from hookgw.core.known_names import *
from hookgw.core.long_work import APART as APART
from hookgw.core.long_work import LONG_WORK as LONG_WORK
from hookgw.core.long_work import LONGEST_REST as LONGEST_REST
from hookgw.core.long_work import ROUNDS as ROUNDS
from hookgw.core.long_work import SLICE as SLICE
from hookgw.core.long_work import LongWork as LongWork
from hookgw.core.long_work import run_in_slices as run_in_slices
from hookgw.core.metrics import *
from hookgw.core.operational.digest import *
from hookgw.core.operational.lane_health import *
from hookgw.core.operational.queue import *
from hookgw.core.own_backlogs import *
from hookgw.core.pending import *
from hookgw.core.registry import *
from hookgw.core.shielded import DEADLINE as DEADLINE
from hookgw.core.shielded import completes as completes
from hookgw.core.survey import STEP as STEP
from hookgw.core.survey import WORST_INSTANCES as WORST_INSTANCES
from hookgw.core.survey import WORST_LANES as WORST_LANES
from hookgw.core.survey import WORST_REGISTRATIONS as WORST_REGISTRATIONS
from hookgw.core.survey import Sources as Sources
from hookgw.core.tag_index import *
from hookgw.core.tag_limits import *
from hookgw.core.this_node import *
