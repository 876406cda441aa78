"""Lanes, the dispatcher that starts them, and the rules by which an attempt is judged."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.lanes.public import *
else:
    __getattr__ = public_names(__name__)
