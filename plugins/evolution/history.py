"""What an Evolution API has stored: the messages that came while it and hookgw were apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from hookgw import MessageQuery, NotSupported
from hookgw.connectors import items, mapping, seconds, text

from .client import Client, Refused
from .events import Report, plain
from .messages import found_messages

PAGE = 100
LARGE_PAGE = 1000
_PASSING = frozenset({401, 403, 408, 429})
_SENT_BY_CALL = frozenset({"web", "unknown"})


async def messages_between(
    client: Client, begin: float, end: float
) -> AsyncGenerator[Sequence[Report], None]:
    """Yield the messages of a span of time, as the reports that they were, or would be.

    Evolution API returns the newest first, and sorts those of the same second anew for each page. So each
    page has whole seconds, and the next one is asked for by its time: no message moves from page to page.

    Args:
        client: of the instance.
        begin, end: in seconds since the epoch.

    Raises:
        NotSupported: this Evolution API does not show its messages, or not those of a span of time.
        NetworkRefused: it did not answer.
    """
    first, last = int(begin), int(end)
    while first <= last:
        found = await _find(client, first, last)
        oldest = min(map(_time_of, found), default=first)
        if len(found) < PAGE:
            yield _reports_of(found)
            return
        yield _reports_of([one for one in found if _time_of(one) > oldest])
        if oldest < last:
            last = oldest
            continue
        page, found = 1, [{}]  # this second alone has more than a page
        while found:
            found = await _find(client, last, last, page=page, size=LARGE_PAGE)
            yield _reports_of(found)
            page += 1
        last -= 1


async def _find(
    client: Client, first: int, last: int, *, page: int = 1, size: int = PAGE
) -> list[dict[str, Any]]:
    query = MessageQuery(since=first, until=last, page=page, size=size)
    try:
        found: list[dict[str, Any]] = (await found_messages(client, query))["messages"]["records"]
    except Refused as error:
        if error.remote_status in _PASSING or error.remote_status >= 500 or error.is_missing:
            raise
        raise NotSupported.of(
            "evolution.no_messages_shown",
            "Evolution API does not show its messages. {error}",
            error=error,
        ) from error
    if any(not first <= _time_of(one) <= last for one in found):
        raise NotSupported.of(
            "evolution.no_messages_by_time",
            "This version of Evolution API does not find messages by their time.",
        )
    return found


def _reports_of(found: Sequence[dict[str, Any]]) -> list[Report]:
    # Ids in the database begin with the time of the row, which puts messages of one second in order.
    return [_report_of(one) for one in sorted(found, key=lambda one: (_time_of(one), text(one.get("id"))))]


def _report_of(record: dict[str, Any]) -> Report:
    """Return the report of a stored message, without what the database adds to it."""
    key = mapping(record.get("key"))
    data = {name: value for name, value in record.items() if name not in ("id", "MessageUpdate")}
    for update in items(record.get("MessageUpdate")):
        data["status"] = text(update.get("status"))
    # Evolution API does not store how a message of the account was sent. Phones choose other ids.
    is_sent = key.get("fromMe") is True and record.get("source") in _SENT_BY_CALL
    return Report(event="send.message" if is_sent else "messages.upsert", data=plain(data))


def _time_of(record: dict[str, Any]) -> int:
    return seconds(record.get("messageTimestamp"))
