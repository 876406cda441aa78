"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.concurrency.clock import *
from hookgw.concurrency.free_memory import *
from hookgw.concurrency.loop_load import *
from hookgw.concurrency.share_line import *
from hookgw.concurrency.tasks import *
from hookgw.concurrency.threads import RESERVED as RESERVED
from hookgw.concurrency.threads import SYSTEM_THREADS as SYSTEM_THREADS
from hookgw.concurrency.threads import SystemThreads as SystemThreads
from hookgw.concurrency.threads import WorkerThread as WorkerThread
from hookgw.concurrency.turn_lock import *
