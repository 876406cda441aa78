"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.locale.catalogues import *
