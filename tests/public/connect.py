"""The public names of ``hookgw.connect``."""

from __future__ import annotations

from hookgw.connect.connect import *
