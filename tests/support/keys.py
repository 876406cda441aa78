"""What a key gives access to, in a gateway."""

from hookgw import Gateway
from tests.public.records import Principal


def principal_of(gateway: Gateway, key: str) -> Principal | None:
    """Return whom a key belongs to; ``None`` if it is unknown or has expired."""
    holder = gateway.keys.holder_of(key)
    return None if holder is None else holder.principal
