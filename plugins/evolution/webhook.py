"""The webhook of an instance in Evolution API: what it must be, and how it is put back. No I/O.

``POST /webhook/set/<instance>`` and ``GET /webhook/find/<instance>`` of Evolution API 2.3.7, with the names
of ``src/api/integrations/event/event.controller.ts`` and the form of ``webhook.schema.ts`` there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from hookgw.connectors import found_at, mapping, strings, text

PROOF = "x-hookgw-proof"
"""The header that proves that a request comes from the server whose webhook hookgw has set."""

EVENTS = (
    *("APPLICATION_STARTUP", "QRCODE_UPDATED", "MESSAGES_SET", "MESSAGES_UPSERT", "MESSAGES_EDITED"),
    *("MESSAGES_UPDATE", "MESSAGES_DELETE", "SEND_MESSAGE", "SEND_MESSAGE_UPDATE", "CONTACTS_SET"),
    *("CONTACTS_UPSERT", "CONTACTS_UPDATE", "PRESENCE_UPDATE", "CHATS_SET", "CHATS_UPSERT", "CHATS_UPDATE"),
    *("CHATS_DELETE", "GROUPS_UPSERT", "GROUP_UPDATE", "GROUP_PARTICIPANTS_UPDATE", "CONNECTION_UPDATE"),
    *("LABELS_EDIT", "LABELS_ASSOCIATION", "CALL", "TYPEBOT_START", "TYPEBOT_CHANGE_STATUS"),
    *("REMOVE_INSTANCE", "LOGOUT_INSTANCE", "INSTANCE_CREATE", "INSTANCE_DELETE", "STATUS_INSTANCE"),
)
"""What Evolution API 2.3.7 knows. It refuses the whole call for one other name."""

NEWER = ("MESSAGING_HISTORY_SET",)
"""What 2.4 knows, too: asked for where an instance names it."""

SPELLINGS = {"GROUPS_UPDATE": "GROUP_UPDATE"}
"""hookgw's names of kinds that Evolution API calls otherwise."""

_LARGEST = 64 * 1024
_NEEDED = ("CONNECTION_UPDATE", "QRCODE_UPDATED")


def wanted_webhook(url: str, secret: str, *, events: Collection[str]) -> dict[str, Any]:
    """Return the webhook that brings an instance's events to hookgw, as ``set`` takes it.

    Args:
        url: the ``ingestUrl``.
        secret: proves the sender.
        events: the kinds to send; empty for all.
    """
    chosen = {SPELLINGS.get(name, name) for name in events or EVENTS} | set(_NEEDED)
    return {
        "enabled": True,
        "url": url,
        "headers": {PROOF: secret},
        "byEvents": False,
        # hookgw fetches the files that fit into events. With all files inside, a message with a long video is
        # larger than any request that hookgw takes, and lost.
        "base64": False,
        "events": [name for name in (*EVENTS, *NEWER) if name in chosen],
    }


def is_set(found: Mapping[str, Any] | None, wanted: Mapping[str, Any], *, all_events: bool) -> bool:
    """Return whether a webhook, as ``find`` shows it, is the wanted one.

    Args:
        found: what ``find`` returned; ``None`` for no webhook.
        wanted: of :func:`wanted_webhook`.
        all_events: the server does not know some names, and was asked for all that it knows.
    """
    if not is_ours(found, wanted["url"]) or found is None:
        return False
    headers, events = found.get("headers"), found.get("events")
    if not isinstance(headers, dict) or not isinstance(events, list):
        return False
    proof = {name.lower(): value for name, value in headers.items()}.get(PROOF)
    names = set(strings(events))
    return (
        found.get("enabled") is True
        and proof == wanted["headers"][PROOF]
        # Without these fields a server of another version says nothing about them.
        and found.get("webhookByEvents", wanted["byEvents"]) is wanted["byEvents"]
        and found.get("webhookBase64", wanted["base64"]) is wanted["base64"]
        and (names >= set(_NEEDED) if all_events else names >= set(wanted["events"]))
    )


def is_ours(found: Mapping[str, Any] | None, url: str) -> bool:
    """Return whether a webhook leads to hookgw's URL."""
    return found is not None and found.get("url") == url


def former_webhook(found: Any) -> dict[str, Any] | None:
    """Return a webhook that ``find`` has shown, as ``set`` takes it; ``None`` for none."""
    if not (url := text(found_at(found, "url"))):
        return None
    names = strings(found.get("events"))
    former = {
        # `set` takes an empty list for all events, but with an empty list it has sent none.
        "enabled": found.get("enabled") is True and bool(names),
        "url": url,
        "headers": {
            name: str(value)
            for name, value in mapping(found.get("headers")).items()
            if isinstance(value, str | int | float)
        },
        "byEvents": found.get("webhookByEvents") is True,
        "base64": found.get("webhookBase64") is True,
        "events": names,
    }
    # It is kept with the state, which has a limit.
    return former if len(msgspec.json.encode(former)) <= _LARGEST else None


def no_webhook(url: str) -> dict[str, Any]:
    """Return a webhook that sends nothing; Evolution API cannot delete one, and wants a URL."""
    return {"enabled": False, "url": url, "headers": {}, "byEvents": False, "base64": False, "events": []}
