"""Instances: their fields, and how requests create and change them. No I/O."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.instances.public import *
else:
    __getattr__ = public_names(__name__)
