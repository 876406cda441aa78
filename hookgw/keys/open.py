"""Keys: what creates and revokes them, and the links that open the dashboard without one."""

from __future__ import annotations

import msgspec

from hookgw.core.open import Core
from hookgw.keys.portal import PortalLinks
from hookgw.keys.service import KeyService


class Keys(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    service: KeyService
    portal: PortalLinks


def open_keys(core: Core) -> Keys:
    service = KeyService(core.keyring, core.registry, core.global_keys, core.clock, core.refresh.alone)
    return Keys(service=service, portal=PortalLinks(core, service))
