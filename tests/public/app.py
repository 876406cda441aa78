"""The public names of ``hookgw.app``."""

from __future__ import annotations

from hookgw.app.dashboard import *
from hookgw.app.json_schemas import *
from hookgw.app.open import *
from hookgw.app.reload import *
from hookgw.app.serve import listen_on as listen_on
from hookgw.app.server import *
from hookgw.app.surfaces import *
