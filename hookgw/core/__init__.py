"""Use cases, and the one function that composes a gateway."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.core.public import *
else:
    __getattr__ = public_names(__name__)
