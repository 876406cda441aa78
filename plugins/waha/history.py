"""The messages that a WAHA server has kept: what came while it and hookgw were apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec
import structlog

from hookgw import NewEvent, NotSupported
from hookgw.connectors import items, mapping, seconds, text

from .client import Client, Refused
from .events import Account, translate

logger = structlog.get_logger("hookgw.waha")

PAGE = 100
_PASSING = frozenset({408, 429, 502, 503, 504})


async def messages_between(
    client: Client,
    session: str,
    me: str,
    account: Callable[[str], Account],
    is_wanted: Callable[[NewEvent], bool],
    begin: float,
    end: float,
) -> AsyncGenerator[Sequence[NewEvent], None]:
    """Yield the messages of a span of time, chat by chat, as the events that WAHA's reports become.

    Args:
        session: its name on the server.
        me: WAHA's id of the account.
        account: returns what the translation of a report, by its id, has to know.
        is_wanted: returns whether an event is wanted.
        begin, end: in seconds since the epoch.

    Raises:
        NotSupported: the server keeps no messages: NOWEB does so only with its store switched on.
        NetworkRefused: the server did not answer.
    """
    first, last = int(begin), int(end)
    known, listed = set[str](), set[str]()
    offset = known_before = 0
    while True:
        # Without merge: WAHA merges the chats of a page afterwards.
        query = {"limit": str(PAGE), "offset": str(offset), "merge": "false"}
        try:
            chats = items(await client.call("GET", session, "chats", "overview", query=query))
        except Refused as error:
            if error.remote_status in _PASSING or error.is_unauthorized:
                raise
            raise NotSupported.of(
                "waha.no_chats", "The WAHA server shows no chats. {error}", error=error
            ) from error
        names = [text(chat.get("id")) for chat in chats if _time_of(chat.get("lastMessage")) >= first]
        for name in names:
            if name and name not in known:
                known.add(name)
                pages = _pages_of_chat(client, session, name, first, last)
                try:
                    async for page in pages:
                        events = (
                            _event_of(one, me, account) for one in page if first <= _time_of(one) <= last
                        )
                        yield [event for event in events if event is not None and is_wanted(event)]
                finally:
                    await pages.aclose()  # noqa: ASYNC102 -- it waits for nothing
        # The chat with the newest message comes first. A page may have fewer than were asked for; a version
        # without pages returns the same one again.
        offset += PAGE
        if listed.issuperset(names):
            has_one_page = offset <= 2 * PAGE and not names
            if has_one_page or len(known) == known_before:
                return
            # A new message may have put its chat on a page that was read already.
            offset, known_before = 0, len(known)
            listed.clear()
        else:
            listed.update(names)


async def _pages_of_chat(
    client: Client, session: str, chat: str, first: int, last: int
) -> AsyncGenerator[Sequence[dict[str, Any]], None]:
    """Yield the messages of a chat; also others, if this version of WAHA knows no filters."""
    # Between fixed moments, a message that arrives meanwhile moves no other one to another page.
    query = {"limit": str(PAGE), "downloadMedia": "false", "sortBy": "timestamp", "sortOrder": "asc"}
    query |= {"filter.timestamp.gte": str(first), "filter.timestamp.lte": str(last), "merge": "false"}
    known: set[str] = set()
    offset = 0
    while True:
        try:
            page = items(
                await client.call(
                    "GET", session, "chats", chat, "messages", query={**query, "offset": str(offset)}
                )
            )
        except Refused as error:
            if error.remote_status in _PASSING or error.is_unauthorized:
                raise
            # One chat that WAHA cannot read must not keep the account closed.
            logger.warning("a chat was not caught up with", session=session, reason=str(error))
            return
        fresh = [one for one in page if text(one.get("id")) not in known]
        # WAHA leaves out of a page what it cannot read: a short one is not the last. A version without pages
        # returns the same one again.
        if not fresh:
            return
        yield fresh
        known.update(text(one.get("id")) for one in fresh)
        offset += PAGE


def _event_of(message: dict[str, Any], me: str, account: Callable[[str], Account]) -> NewEvent | None:
    envelope = {"event": "message.any", "payload": message, "me": {"id": me}}
    report = account(f"history {text(message.get('id'))}")
    event = translate(envelope, report, msgspec.json.encode(envelope))
    return None if event is None else msgspec.structs.replace(event, time=float(_time_of(message)))


def _time_of(message: Any) -> int:
    return int(seconds(mapping(message).get("timestamp")))
