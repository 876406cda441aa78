"""Records and rules without I/O. Every other layer may import them; they import no other layer."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.records.public import *
else:
    __getattr__ = public_names(__name__)
