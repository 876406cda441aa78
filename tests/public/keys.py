"""The public names of ``hookgw.keys``."""

from __future__ import annotations

from hookgw.keys.fields import *
from hookgw.keys.portal import *
from hookgw.keys.portal_fields import *
from hookgw.keys.service import *
