"""The public names of ``hookgw.concurrency``."""

from __future__ import annotations

from hookgw.concurrency.clock import *
from hookgw.concurrency.free_memory import *
from hookgw.concurrency.hub import *
from hookgw.concurrency.light import *
from hookgw.concurrency.loop_load import *
from hookgw.concurrency.share_line import *
from hookgw.concurrency.tasks import *
from hookgw.concurrency.threads import *
from hookgw.concurrency.turn_lock import *
