"""The public names of ``hookgw.webhooks``."""

from __future__ import annotations

from hookgw.webhooks.auto_disable import *
from hookgw.webhooks.backfills import *
from hookgw.webhooks.change import *
from hookgw.webhooks.configured import *
from hookgw.webhooks.fields import *
from hookgw.webhooks.filters import *
from hookgw.webhooks.requests import *
from hookgw.webhooks.responses import *
from hookgw.webhooks.service import *
from hookgw.webhooks.tls import *
