"""Events: how they are read, accepted and stored."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.events.public import *
else:
    __getattr__ = public_names(__name__)
