"""The requests that Meta sends to ``ingestUrl``: the proof, the challenge, and the changes in a body. No I/O.

Meta repeats a request for up to seven days until it gets a 200, also after a 4xx. So what is proved to come
from Meta gets one, whatever is in it; parts that hookgw has no use for, or cannot read, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import msgspec

from hookgw import IngestRequest, ProofRefused
from hookgw.connectors import is_signature, items, mapping, raw_at, raw_items, text

SIGNATURE = "x-hub-signature-256"
EVENTS = [
    f"/entry/#/changes/#/value/{part}/#"
    for part in (
        *("messages", "message_echoes", "statuses", "calls", "groups", "state_sync"),
        # It is passed on as a whole. But in one step, its tens of thousands of values are too many.
        "history/#/threads/#/messages",
    )
]
"""Where events are in a notification; see ``Session.decode_json``."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a notification.

    Attributes:
        field: what kind of change it is, such as ``messages``.
        phone_number_id: whose number it concerns; empty if it concerns the account as a whole.
        account: that number's JID; ``None`` if it is unknown.
        value: the change.
        raw: returns the value as Meta wrote it, and the time of its entry: decoded no further, and only when
            it is called.
    """

    field: str
    phone_number_id: str
    account: str | None
    value: dict[str, Any]
    raw: Callable[[], tuple[bytes, str]]


def check_proof(request: IngestRequest, app_secret: str) -> None:
    """Check that Meta signed a body.

    Raises:
        ProofRefused: it did not, or with the secret of another app.
    """
    algorithm, _, shown = request.headers.get(SIGNATURE, "").partition("=")
    if algorithm != "sha256" or not is_signature(shown, app_secret, request.body):
        raise ProofRefused.of(
            "whatsapp_cloud.proof",
            "{signature} is missing, or not the signature of this body with app_secret.",
            signature=SIGNATURE,
        )


def read_changes(notification: dict[str, Any], body: bytes) -> Iterator[Change]:
    """Yield the changes of a notification, in their order.

    Args:
        notification: the decoded body; see :data:`EVENTS`.
        body: the same, as Meta wrote it.
    """

    @cache
    def raw() -> list[tuple[bytes, str]]:
        return [
            (raw_at(change, "value"), raw_at(entry, "time").decode())
            for entry in raw_items(raw_at(body, "entry"))
            for change in raw_items(raw_at(entry, "changes"))
            if change.startswith(b"{")  # others are no changes
        ]

    place = 0
    for entry in items(notification.get("entry")):
        for change in items(entry.get("changes")):
            value = mapping(change.get("value"))
            # Who answers a conversation, such as Meta's agent, is told to the number as the recipient.
            ours = mapping(value.get("metadata")) or mapping(value.get("recipient"))
            digits = re.sub("[^0-9]", "", text(ours.get("display_phone_number")))
            yield Change(
                field=text(change.get("field")),
                phone_number_id=text(ours.get("phone_number_id")),
                account=f"{digits}@s.whatsapp.net" if digits else None,
                value=value,
                raw=partial(_at, raw, place),
            )
            place += 1


def _at(raw: Callable[[], list[tuple[bytes, str]]], place: int) -> tuple[bytes, str]:
    found = raw()
    return found[place] if place < len(found) else (b"null", "")
