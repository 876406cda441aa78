"""Shows keys as responses."""

from __future__ import annotations

from hookgw.keys import responses
from hookgw.records.api_keys import Key
from hookgw.web.present import present_time


def present_key(key: Key, instance: str | None, *, current: Key, now: float) -> responses.Key:
    """Return a key without its secret. ``current`` is the caller's key, ``now`` by the steady clock."""
    return responses.Key(
        name=key.name,
        instance=instance,
        state="expired" if key.is_expired(now) else "active",
        created_at=present_time(key.created_at),
        expires_at=present_time(key.expires_at),
        origin=key.origin or None,  # to find the descendants of a leaked key
        current=key.hash == current.hash,
    )
