"""Divides limited resources among holders. No I/O, and no clock."""

from hookgw.fair.excess import Excess
from hookgw.fair.per_holder import PerHolder
from hookgw.fair.share import LOOKED_AT, Claim, Share, share_of
from hookgw.fair.turns import Turns

__all__ = ["LOOKED_AT", "Claim", "Excess", "PerHolder", "Share", "Turns", "share_of"]
