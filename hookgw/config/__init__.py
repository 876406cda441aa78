"""Typed settings, and the code that loads and checks them."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.config.public import *
else:
    __getattr__ = public_names(__name__)
