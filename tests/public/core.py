"""The public names of ``hookgw.core``."""

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
from hookgw.core.long_work import *
from hookgw.core.metrics import *
from hookgw.core.operational.digest import *
from hookgw.core.operational.lane_health import *
from hookgw.core.operational.queue import *
from hookgw.core.own_backlogs import *
from hookgw.core.pending import *
from hookgw.core.registry import *
from hookgw.core.shielded import *
from hookgw.core.survey import *
from hookgw.core.tag_index import *
from hookgw.core.tag_limits import *
from hookgw.core.this_node import *
from hookgw.core.turns import *
