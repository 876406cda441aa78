"""The bodies of ``/chat`` that ask for messages, files and pictures. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import (
    Fields,
    as_bool,
    as_object,
    is_whole,
    kind_of,
    text_up_to,
    whole_number,
)
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import parse_rfc3339
from hookgw.messages.requests import (
    MAX_COUNT,
    MAX_ID,
    MAX_LINE,
    MAX_NUMBER,
    MAX_PAGE,
    number_of,
    raise_problems,
    refuse_misspelled,
)
from hookgw.records.messages import MessageQuery

DEFAULT_PAGE = 50
"""Messages of a page, as in Evolution API."""
_MILLISECONDS = 10**11
"""From here on, a number is in milliseconds, as in JavaScript. In seconds, it would be the year 5138."""

_NOT_TIME = Sentence.declared(
    "query.not_time", "{where} must be a time such as 2026-11-20T12:00:00Z, not {given}."
)


def parse_message_query(body: Any) -> MessageQuery:
    """Read the body of ``findMessages``; ``{}`` means everything.

    Raises:
        Invalid: with every mistake.
    """
    paging = Fields.of_body(body)
    where = Fields(("where", paging.read(as_object, {}, "where")))
    key = Fields(("where.key", where.read(as_object, {}, "key")))
    times = Fields(("where.messageTimestamp", where.read(as_object, {}, "messageTimestamp")))
    chat = key.pick(text_up_to(MAX_NUMBER), "remoteJid", "remoteJidAlt")
    from_me, outer_from_me = key.pick(as_bool, "fromMe"), where.pick(as_bool, "fromMe")
    found = MessageQuery(
        id=key.pick(text_up_to(MAX_ID), "id"),
        chat=chat or where.pick(text_up_to(MAX_NUMBER), "remoteJid"),
        from_me=outer_from_me if from_me is None else from_me,
        message_type=where.pick(text_up_to(MAX_LINE), "messageType"),
        since=times.pick(_moment, "gte"),
        until=times.pick(_moment, "lte"),
        page=paging.pick(whole_number(0, MAX_COUNT), "page") or 1,
        # As in findChats, clients of Evolution API send the size of a page in `offset`; 0 means the default.
        size=paging.pick(whole_number(0, MAX_PAGE), "offset", "take", "limit") or DEFAULT_PAGE,
        record_id=where.pick(text_up_to(MAX_ID), "id"),
        source=where.pick(text_up_to(MAX_LINE), "source"),
    )
    refuse_misspelled(paging, where, key, times)
    raise_problems(paging, where, key, times)
    return found


def parse_file_request(body: Any) -> tuple[str, str | None]:
    """Read the body of ``getBase64FromMediaMessage``; return the id of the message, and its chat if given.

    Raises:
        Invalid: with every mistake.
    """
    outer = Fields.of_body(body)
    message = Fields(("message", outer.need(as_object, {}, "message")))
    key = Fields(("message.key", message.need(as_object, {}, "key") if not outer.problems else {}))
    id_ = "" if outer.problems or message.problems else key.need(text_up_to(MAX_ID), "", "id")
    chat = key.pick(text_up_to(MAX_NUMBER), "remoteJid")
    raise_problems(outer, message, key)
    return id_, chat


def parse_picture_request(body: Any) -> str:
    """Read the body of ``fetchProfilePictureUrl``; return the number.

    Raises:
        Invalid: with every mistake.
    """
    fields = Fields.of_body(body)
    number = fields.need(number_of, "", "number")
    fields.finish()
    return number


def parse_group(group: str | None) -> str:
    """Return the group in a query, ``groupJid``.

    Raises:
        Invalid: it is missing, or too long.
    """
    if not group or len(group) > MAX_NUMBER:
        raise Invalid.of(
            "group.jid_missing",
            "groupJid is missing in the query, or has more than {most} characters.",
            most=MAX_NUMBER,
        )
    return group


def _moment(value: Any, where: str) -> float:
    """Return a time in seconds: RFC 3339, a date, or a number as in JavaScript or in an event."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if is_whole(value) and 0 <= value < _MILLISECONDS * 1000:
        return float(value) if value < _MILLISECONDS else value / 1000
    if not isinstance(value, str):
        raise Invalid(_NOT_TIME(where=where, given=kind_of(value)))
    try:
        # In JavaScript, a date alone is its beginning in UTC.
        return parse_rfc3339(f"{value}T00:00:00Z" if len(value) == 10 else value)
    except (ValueError, OverflowError):
        raise Invalid(_NOT_TIME(where=where, given=repr(value[:64]))) from None
