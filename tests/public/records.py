"""The public names of ``hookgw.records``."""

from __future__ import annotations

from hookgw.records.api_keys import *
from hookgw.records.audit import *
from hookgw.records.browser_sessions import *
from hookgw.records.chats import *
from hookgw.records.connectors import *
from hookgw.records.deliveries import *
from hookgw.records.destinations import *
from hookgw.records.erased_persons import *
from hookgw.records.event_filters import *
from hookgw.records.event_kinds import *
from hookgw.records.events import *
from hookgw.records.failing_task import *
from hookgw.records.figures import *
from hookgw.records.fleet import *
from hookgw.records.inline_media import *
from hookgw.records.instances import *
from hookgw.records.jobs import *
from hookgw.records.lane_lists import *
from hookgw.records.lanes import *
from hookgw.records.operational_kinds import *
from hookgw.records.payload_schemas import *
from hookgw.records.problems import *
from hookgw.records.registrations import *
from hookgw.records.selection import *
from hookgw.records.sentences import *
from hookgw.records.shards import *
from hookgw.records.stuck_lanes import *
from hookgw.records.tags import *
from hookgw.records.tls_identity import *
from hookgw.records.told_sentences import *
