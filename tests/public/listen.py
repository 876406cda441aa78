"""The public names of ``hookgw.listen``."""

from __future__ import annotations

from hookgw.listen.forward import *
from hookgw.listen.listen import *
from hookgw.listen.received_event import *
