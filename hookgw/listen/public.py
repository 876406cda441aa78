"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.listen.forward import *
from hookgw.listen.listen import *
from hookgw.listen.received_event import *
