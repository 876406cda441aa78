"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.keys.fields import *
from hookgw.keys.portal import *
from hookgw.keys.portal_fields import *
from hookgw.keys.service import *
