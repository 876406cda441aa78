"""The public names of ``hookgw.deliveries``."""

from __future__ import annotations

from hookgw.deliveries.bulk import *
from hookgw.deliveries.history import *
from hookgw.deliveries.pull import *
from hookgw.deliveries.pull_requests import *
from hookgw.deliveries.requests import *
from hookgw.deliveries.search import *
from hookgw.deliveries.selection import *
