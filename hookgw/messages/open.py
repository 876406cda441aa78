"""Messages: what sends them, finds chats, and opens files."""

from __future__ import annotations

import msgspec

from hookgw.core.open import Core
from hookgw.deliveries.history import DeliveryHistory
from hookgw.instances.open import Instances
from hookgw.messages.chats import ChatSearch
from hookgw.messages.media import MediaDownloads
from hookgw.messages.service import MessageService
from hookgw.messages.stored_messages import StoredMessages


class Messages(msgspec.Struct, frozen=True, eq=False):
    service: MessageService
    chats: ChatSearch
    media: MediaDownloads
    stored_messages: StoredMessages


def open_messages(core: Core, instances: Instances, history: DeliveryHistory) -> Messages:
    registry, clock, connectors = core.registry, core.clock, instances.connectors
    limit = core.settings.media.limit
    media = MediaDownloads(registry, connectors, instances.links, limit, clock.steady, core.metrics.limited)
    service = MessageService(registry, connectors, core.catalog, clock)
    stored = StoredMessages(history, registry, connectors, media)
    return Messages(service, ChatSearch(history), media, stored)
