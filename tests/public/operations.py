"""The public names of ``hookgw.operations``."""

from __future__ import annotations

from hookgw.operations.activity import *
from hookgw.operations.causes import *
from hookgw.operations.clock_watch import ClockWatch as ClockWatch
from hookgw.operations.history_pruning import *
from hookgw.operations.repairs import *
from hookgw.operations.visible_jobs import VisibleJobs as VisibleJobs
from hookgw.operations.watchdog import *
