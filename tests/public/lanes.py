"""The public names of ``hookgw.lanes``."""

from __future__ import annotations

from hookgw.lanes.chat_order import *
from hookgw.lanes.dispatcher import *
from hookgw.lanes.fetches import *
from hookgw.lanes.held_shards import *
from hookgw.lanes.idle_lanes import *
from hookgw.lanes.lane import *
from hookgw.lanes.lane_memory import *
from hookgw.lanes.lane_queue import *
from hookgw.lanes.lease import *
from hookgw.lanes.pulled_lane import *
from hookgw.lanes.rate_limit import *
from hookgw.lanes.retired_lanes import *
from hookgw.lanes.retry_policy import *
from hookgw.lanes.services import *
from hookgw.lanes.store_retry import *
from hookgw.lanes.tag_rates import *
