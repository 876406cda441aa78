"""A fleet: several nodes that share one PostgreSQL. Nothing here runs with SQLite."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.fleet.public import *
else:
    __getattr__ = public_names(__name__)
