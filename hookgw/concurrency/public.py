"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.concurrency.clock import *
from hookgw.concurrency.free_memory import *
from hookgw.concurrency.hub import NO_HUB as NO_HUB
from hookgw.concurrency.hub import Hub as Hub
from hookgw.concurrency.light import MOST_STEPS as MOST_STEPS
from hookgw.concurrency.light import PASSES as PASSES
from hookgw.concurrency.light import LightSteps as LightSteps
from hookgw.concurrency.light import LightTask as LightTask
from hookgw.concurrency.light import Waiter as Waiter
from hookgw.concurrency.light import in_task as in_task
from hookgw.concurrency.light import let_others_go_on as let_others_go_on
from hookgw.concurrency.light import may_leave_task as may_leave_task
from hookgw.concurrency.loop_load import *
from hookgw.concurrency.share_line import *
from hookgw.concurrency.tasks import *
from hookgw.concurrency.threads import RESERVED as RESERVED
from hookgw.concurrency.threads import SYSTEM_THREADS as SYSTEM_THREADS
from hookgw.concurrency.threads import SystemThreads as SystemThreads
from hookgw.concurrency.threads import WorkerCall as WorkerCall
from hookgw.concurrency.threads import WorkerThread as WorkerThread
from hookgw.concurrency.turn_lock import *
