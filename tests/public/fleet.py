"""The public names of ``hookgw.fleet``."""

from __future__ import annotations

from hookgw.fleet.all_nodes import *
from hookgw.fleet.backlog_exchange import *
from hookgw.fleet.database_calls import *
from hookgw.fleet.divided_limits import *
from hookgw.fleet.fleet_node import *
from hookgw.fleet.lane_pauses import *
from hookgw.fleet.lease import *
from hookgw.fleet.peer_calls import *
from hookgw.fleet.record_refresh import *
