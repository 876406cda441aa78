"""Times that tests share: what hookgw waits for by default."""

from hookgw.config import DeliverySettings

FIRST_WAIT = float(DeliverySettings().schedule[0])
"""Seconds after which a failed delivery is tried again."""
