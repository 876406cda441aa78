"""API keys: their fields, how requests create them and how responses show them. No I/O."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.keys.public import *
else:
    __getattr__ = public_names(__name__)
