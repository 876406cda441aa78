"""Messages that Evolution API has stored."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hookgw import Invalid, MessageQuery, NetworkEvents, NetworkRefused, whatsapp_chat_of
from hookgw.connectors import mapping

from .client import Client

# Evolution API filters by time only between two times.
_FIRST, _LAST = 0.0, 253_402_300_799.0


async def found_messages(client: Client, query: MessageQuery) -> dict[str, Any]:
    """Return a page of messages, in Evolution API's own form.

    Raises:
        NetworkRefused: Evolution API refused, or answered with something else.
    """
    chat = query.chat
    with suppress(Invalid):  # anything else finds nothing there
        # It compares, so a chat must be spelled as in messages.
        chat = whatsapp_chat_of(chat) if chat is not None else None
    key = {"id": query.id, "remoteJid": chat, "fromMe": query.from_me}
    beside = {"messageType": query.message_type, "id": query.record_id, "source": query.source}
    where: dict[str, Any] = {
        "key": {name: value for name, value in key.items() if value is not None},
        **{name: value for name, value in beside.items() if value is not None},
    }
    if query.since is not None or query.until is not None:
        since = _FIRST if query.since is None else query.since
        until = _LAST if query.until is None else query.until
        where["messageTimestamp"] = {"gte": _time(since), "lte": _time(until)}
    body = {"where": where, "page": query.page, "offset": query.size}
    answer = await client.call("POST", "chat/findMessages", body, events=("/messages/records/#",))
    page = answer.get("messages") if isinstance(answer, dict) else None
    records = page.get("records") if isinstance(page, dict) else None
    if not isinstance(page, dict) or not isinstance(records, NetworkEvents | list):
        raise NetworkRefused.of(
            "evolution.answer_without_messages", "Evolution API did not answer with messages."
        )
    return {"messages": {**page, "records": [one for one in records if isinstance(one, dict)]}}


async def stored_key(client: Client, id_: str) -> dict[str, Any]:
    """Return the key of a message; empty if Evolution API has not stored the message.

    Raises:
        NetworkRefused: see :func:`found_messages`.
    """
    found = (await found_messages(client, MessageQuery(id=id_, size=1)))["messages"]["records"]
    keys = (mapping(one.get("key")) for one in found)
    return next((key for key in keys if key.get("id") == id_), {})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
