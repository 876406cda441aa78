"""Divides what is limited among those who want it. No I/O, and no clock."""

from hookgw.fair.share import Claim, Share

__all__ = ["Claim", "Share"]
