"""The public names of ``hookgw.locale``."""

from __future__ import annotations

from hookgw.locale.catalogues import *
