"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.fleet import shard_work
from hookgw.fleet.all_nodes import *
from hookgw.fleet.backlog_exchange import *
from hookgw.fleet.database_calls import *
from hookgw.fleet.divided_limits import *
from hookgw.fleet.lane_pauses import *
from hookgw.fleet.lease import *
from hookgw.fleet.own_backlogs import *
from hookgw.fleet.ownership import *
from hookgw.fleet.peer_calls import *
from hookgw.fleet.shard_work import *

SHARD_WORK_UNKNOWN = shard_work.UNKNOWN
