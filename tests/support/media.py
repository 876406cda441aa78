"""Links to inbound files and the rules of events, for sessions without a gateway."""

from typing import Any

from tests.public.auth import MEDIA_KEY_BYTES as KEY_BYTES
from tests.public.auth import MediaLinks
from tests.public.core import Registry
from tests.public.instances import EventRules, InboundMedia
from tests.public.records import BUILT_IN_KINDS, Catalog

EVENT_RULES = EventRules(Catalog(BUILT_IN_KINDS), 100_000, 2**20)


def inbound_media(max_data: int = 2**20) -> InboundMedia:
    """Return what a session needs; no registration wants files inside events."""
    unused: Any = None
    return InboundMedia(
        MediaLinks(bytes(KEY_BYTES), 60, "", float), Registry(unused, unused, unused), max_data
    )
