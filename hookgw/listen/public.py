"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.listen.forward import *
from hookgw.listen.listen import ListenOptions as ListenOptions
from hookgw.listen.listen import run as run
from hookgw.listen.received_event import *
