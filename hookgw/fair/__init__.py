"""Divides limited resources among holders. No I/O, and no clock."""

from hookgw.fair.per_holder import PerHolder
from hookgw.fair.share import Claim, Share, share_of
from hookgw.fair.turns import Turns

__all__ = ["Claim", "PerHolder", "Share", "Turns", "share_of"]
