"""The webhook in a session's configuration: how it must be, and whether it is so. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from hookgw.connectors import items, mapping, text

OLD_EVENTS = (
    "session.status",
    "message.any",
    "message.ack",
    "message.reaction",
    "message.waiting",
    "message.revoked",
    "presence.update",
    "poll.vote",
    "chat.archive",
    "call.received",
    "call.accepted",
    "call.rejected",
    "label.upsert",
    "label.deleted",
    "label.chat.added",
    "label.chat.deleted",
)
"""What all versions of WAHA since 2024.10 know. A server refuses the whole webhook for one unknown name."""
EVENTS = (
    *OLD_EVENTS,
    "message.ack.group",
    "message.edited",
    "group.v2.join",
    "group.v2.leave",
    "group.v2.participants",
    "group.v2.update",
    "poll.vote.failed",
    "event.response",
    "event.response.failed",
)
"""What hookgw asks for: all of WAHA's events but those that say once more what another one says.

``message`` is within ``message.any``. ``group.join``, ``group.leave`` and ``state.change`` are former names
of ``group.v2…`` and ``session.status``. ``engine.event``, which WAHA's own ``*`` leaves out, is the engine's
log.
"""
FORMER_EVENTS = ("group.join", "group.leave")
"""What a server has that does not know ``group.v2…`` yet, which came with 2025.2.4."""
RETRIES = {"policy": "linear", "delaySeconds": 2, "attempts": 200}
"""How WAHA repeats a request: after 2, 4, 6 … seconds, 200 times, which is 11 hours in all."""


def webhook_of(url: str, hmac_key: str, events: Sequence[str]) -> dict[str, Any]:
    """Return hookgw's webhook."""
    return {"url": url, "events": list(events), "hmac": {"key": hmac_key}, "retries": RETRIES}


def split(config: Mapping[str, Any], urls: Collection[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return hookgw's webhooks in a session's configuration, and all others.

    Args:
        config: of the session.
        urls: those that hookgw has set, now or earlier.
    """
    webhooks = config.get("webhooks") or []
    ours = [webhook for webhook in items(webhooks) if text(webhook.get("url")) in urls]
    return ours, [webhook for webhook in webhooks if webhook not in ours]


def is_as_wanted(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a webhook that the server shows is the one that hookgw wants."""
    events, retries = shown.get("events"), mapping(shown.get("retries"))
    return (
        shown.get("url") == wanted["url"]
        and isinstance(events, list)
        and all(event in events for event in wanted["events"])
        and mapping(shown.get("hmac")).get("key") == wanted["hmac"]["key"]
        and all(retries.get(name) == value for name, value in wanted["retries"].items())
    )


def fingerprint(webhook: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same webhook, and does not show its key."""
    return hashlib.sha256(msgspec.json.encode(webhook, order="deterministic")).hexdigest()
