"""Keys: what creates and revokes them."""

from __future__ import annotations

from hookgw.core.open import Core
from hookgw.keys.service import KeyService


def open_keys(core: Core) -> KeyService:
    return KeyService(core.keyring, core.registry, core.global_keys, core.clock, core.refresh.alone)
