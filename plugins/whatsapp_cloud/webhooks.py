"""The requests that Meta sends to ``ingestUrl``: the proof, the challenge, and the changes in a body. No I/O.

Meta repeats a request for up to seven days until it gets a 200, also after a 4xx. So what is proved to come
from Meta gets one, whatever is in it; parts that hookgw has no use for, or cannot read, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hookgw import IngestRequest, IngestResponse, Invalid, ProofRefused
from hookgw.connectors import is_secret, is_signature, items, mapping, text

SIGNATURE = "x-hub-signature-256"
EVENTS = [
    f"/entry/#/changes/#/value/{part}/#"
    for part in ("messages", "message_echoes", "statuses", "calls", "groups", "state_sync")
]
"""Where events are in a notification; see ``Session.decode_json``."""
_CHALLENGE = re.compile("[!-~]{1,1024}")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a notification.

    Attributes:
        field: what kind of change it is, such as ``messages``.
        phone_number_id: whose number it concerns; empty if it concerns the account as a whole.
        account: that number's JID; ``None`` if it is unknown.
        value: the change.
    """

    field: str
    phone_number_id: str
    account: str | None
    value: dict[str, Any]


def answer_challenge(request: IngestRequest, verify_token: str) -> IngestResponse:
    """Answer Meta's check of a new URL.

    Raises:
        Invalid: this is not such a check.
    """
    is_right = is_secret(request.query.get("hub.verify_token", ""), verify_token)
    if request.query.get("hub.mode") != "subscribe" or not is_right:
        return IngestResponse(status=403, body=b"hub.verify_token is not the verify_token of the instance.")
    challenge = request.query.get("hub.challenge", "")
    if not _CHALLENGE.fullmatch(challenge):
        raise Invalid("hub.challenge is missing, or is no plain text.")
    return IngestResponse(body=challenge.encode())


def check_proof(request: IngestRequest, app_secret: str) -> None:
    """Check that Meta signed a body.

    Raises:
        ProofRefused: it did not, or with the secret of another app.
    """
    algorithm, _, shown = request.headers.get(SIGNATURE, "").partition("=")
    if algorithm != "sha256" or not is_signature(shown, app_secret, request.body):
        raise ProofRefused(f"{SIGNATURE} is missing, or not the signature of this body with app_secret.")


class _RawChange(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")


class _RawEntry(msgspec.Struct):
    changes: list[_RawChange] = []
    time: msgspec.Raw = msgspec.Raw(b"null")


class _RawBody(msgspec.Struct):
    entry: list[_RawEntry] = []


def raw_values(body: bytes) -> list[tuple[bytes, str]]:
    """Return the values of the changes in a body, byte for byte, each with the time of its entry.

    Returns:
        As many as :func:`read_changes`, in the same order; none if the body has an odd form.
    """
    try:
        entries = msgspec.json.decode(body, type=_RawBody).entry
    except (ValueError, RecursionError):
        return []
    return [(bytes(one.value), bytes(entry.time).decode()) for entry in entries for one in entry.changes]


def read_changes(notification: Any) -> list[Change]:
    """Return the changes of a notification, in their order.

    Args:
        notification: the decoded body; see :data:`EVENTS`.

    Raises:
        Invalid: it is no JSON object.
    """
    if not isinstance(notification, dict):
        raise Invalid("The body is not a JSON object.")
    return list(_changes(notification))


def _changes(notification: dict[str, Any]) -> Iterator[Change]:
    for entry in items(notification.get("entry")):
        for change in items(entry.get("changes")):
            value = mapping(change.get("value"))
            metadata = mapping(value.get("metadata"))
            digits = re.sub("[^0-9]", "", text(metadata.get("display_phone_number")))
            yield Change(
                field=text(change.get("field")),
                phone_number_id=text(metadata.get("phone_number_id")),
                account=f"{digits}@s.whatsapp.net" if digits else None,
                value=value,
            )
