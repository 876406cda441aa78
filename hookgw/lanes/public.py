"""The public names of ``hookgw.lanes``: ``from hookgw.lanes import …`` loads them at the first use."""

from __future__ import annotations

from hookgw.lanes import idle_lanes, lane_queue, parked_lanes, store_retry
from hookgw.lanes.dispatcher import PARK_AFTER as PARK_AFTER
from hookgw.lanes.dispatcher import Dispatcher as Dispatcher
from hookgw.lanes.held_shards import HeldShards as HeldShards
from hookgw.lanes.idle_lanes import IdleLanes as IdleLanes
from hookgw.lanes.lane import Lane as Lane
from hookgw.lanes.lane_memory import LaneMemory as LaneMemory
from hookgw.lanes.lane_queue import LaneQueue as LaneQueue
from hookgw.lanes.lane_queue import MemoryClaim as MemoryClaim
from hookgw.lanes.lane_queue import charge_of as charge_of
from hookgw.lanes.parked_lanes import FORGET_AT_ONCE as FORGET_AT_ONCE
from hookgw.lanes.parked_lanes import ParkedLanes as ParkedLanes
from hookgw.lanes.rate_limit import RateLimit as RateLimit
from hookgw.lanes.rate_limit import RateLimits as RateLimits
from hookgw.lanes.retry_policy import Decision as Decision
from hookgw.lanes.retry_policy import Policy as Policy
from hookgw.lanes.retry_policy import decide as decide
from hookgw.lanes.retry_policy import is_expired as is_expired
from hookgw.lanes.retry_policy import longest_wait as longest_wait
from hookgw.lanes.retry_policy import policy_of as policy_of
from hookgw.lanes.services import LaneServices as LaneServices
from hookgw.lanes.store_retry import retry_until_readable as retry_until_readable

IDLE_GRAIN = idle_lanes.GRAIN
LEAST_LANE_MEMORY = lane_queue.LEAST_MEMORY
LANE_MEMORY_RATIO = lane_queue.MEMORY_RATIO
LANE_MEMORY_RESERVED = lane_queue.MEMORY_RESERVED
DELIVERY_OVERHEAD = lane_queue.OVERHEAD
LANE_PAGE = lane_queue.PAGE
PARKED_GRAIN = parked_lanes.GRAIN
LAST_STORE_WAIT = store_retry.LAST_WAIT
