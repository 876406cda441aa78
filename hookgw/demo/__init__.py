"""``hookgw demo``: the gateway, a simulated account and failing receivers in one terminal."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.demo.public import *
else:
    __getattr__ = public_names(__name__)
