"""The public names of ``hookgw.events``."""

from __future__ import annotations

from hookgw.events.append_turns import *
from hookgw.events.erasure import *
from hookgw.events.erasure_request import *
from hookgw.events.requests import *
from hookgw.events.schemas import *
