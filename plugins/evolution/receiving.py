"""Stores what Evolution API posts: in the order of arrival, and several requests in one commit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog
import trio

from hookgw import EventLeftOut, Invalid, NetworkRefused, NewEvent, TooLarge, jids_of
from hookgw.connectors import Recent, attach_file, decode_json, mapping, network_event, text

from .client import Client
from .connection import Connection
from .events import Report, read_reports, repaired
from .history import messages_between
from .media import file_of, may_have_file, size_of, small_file, with_link
from .messages import stored_key

_MOST_UNKNOWN = 100
_MOST_PARTS = 256
_LARGEST_BATCH = 2**20
"""Bytes of the events that are stored in one commit; one event may have more."""
FILE_TIME = 10.0
"""Seconds for files that registrations want inside events. Evolution API waits 30 s for an answer."""
_SLOW_FOR = 60.0
"""Seconds without such files, after one took too long: messages must not wait for each of them."""
KEY_TIME = 5.0
"""Seconds to look up the messages of edits, and of statuses without a chat."""
_MOST_CHATS = 1_000
"""Chats whose names are remembered, and messages without one, so that not each status is looked up."""
_MOST_FILES = 10
"""They are in memory at a time, and each fits into an event."""
_MESSAGES = ("MESSAGES_UPSERT", "SEND_MESSAGE")
_EDIT, _STATUS = "MESSAGES_EDITED", "MESSAGES_UPDATE"
_PEOPLE = ("@s.whatsapp.net", "@lid")

logger = structlog.get_logger("hookgw.evolution")


class _Request:
    def __init__(self, body: bytes, path: str) -> None:
        self.body = body
        self.path = path
        self.reports: Sequence[Report] | None = None
        self.is_stored = False
        self.error: ValueError | EventLeftOut | None = None


class Receiver:
    """Stores the events of one connection.

    Args:
        connection: hears of states and codes.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session = connection.session
        self._turn = trio.Lock()
        self._waiting: list[_Request] = []
        self._unknown: set[str] = set()
        self._slow_until = float("-inf")
        self._chats: Recent[str, dict[str, str]] = Recent(_MOST_CHATS)
        self._without_chat: Recent[str, bool] = Recent(_MOST_CHATS)

    async def take(self, body: bytes, path: str) -> None:
        """Store the events of a request; those of requests that arrived before are stored before.

        What hookgw will never take is left out, with a line in the log.

        Raises:
            ValueError: the body is not JSON, perhaps because a part of it is missing.
            EventLeftOut: it is too large to be read.
            Unavailable: hookgw cannot store events now.
        """
        request = _Request(body, path)
        self._waiting.append(request)
        try:
            # A commit for each request would be slow: who has the turn stores what waits by then, too.
            async with self._turn:
                while not request.is_stored:
                    await self._store_first()
            if request.error is not None:
                raise request.error
        finally:
            if not request.is_stored:  # it is repeated
                self._waiting.remove(request)

    async def missed(self, begin: float, end: float) -> AsyncGenerator[Sequence[NewEvent], None]:
        """Yield the events of the messages that Evolution API has stored between two moments.

        Raises:
            NotSupported: it does not show them.
            NetworkRefused: it did not answer.
        """
        client, options = self.connection.client, self.connection.options
        if client is None or options is None or not options.set_webhook:
            return  # another receiver has the webhook
        pages = messages_between(client, begin, end)
        try:
            async for page in pages:
                events = [
                    msgspec.structs.replace(self._event(kind, report), time=float(report.sent))
                    for report in page
                    if (kind := self._kind_of(report))
                    and (not options.remote_events or kind in options.remote_events)
                ]
                for first in range(0, len(events), _MOST_FILES):
                    part = events[first : first + _MOST_FILES]
                    await self._complete(part)
                    yield part
        finally:
            await pages.aclose()  # noqa: ASYNC102 -- it waits for nothing

    async def _store_first(self) -> None:
        """Store the requests that have waited for longest: all up to a state or a code, or one."""
        events: list[NewEvent] = []
        taken: list[_Request] = []
        size = files = 0
        for request in tuple(self._waiting):
            reports = await self._read(request)
            kinds = [self._kind_of(report) for report in reports]
            pairs = zip(reports, kinds, strict=True)
            found = [self._event(kind, report) for report, kind in pairs if kind or report.event]
            size += sum(len(report.data_json or b"") for report in reports)
            files += len(self._missing_files(found))
            is_full = size > _LARGEST_BATCH or files > _MOST_FILES
            if {"CONNECTION_UPDATE", "QRCODE_UPDATED"} & set(kinds) or (taken and is_full):
                if not taken:
                    await self._store_alone(request, reports)
                    return
                break
            taken.append(request)
            events += found
        try:
            await self._emit(events)
        except (Invalid, TooLarge):  # one of them: each for itself
            await self._store_alone(taken[0], await self._read(taken[0]))
            return
        for request in taken:
            self._finish(request)

    async def _store_alone(self, request: _Request, reports: Sequence[Report]) -> None:
        for report in reports:
            await self._take(report)
        self._finish(request)

    def _finish(self, request: _Request) -> None:
        request.is_stored = True
        if request in self._waiting:  # its sender may have gone away meanwhile
            self._waiting.remove(request)

    async def _read(self, request: _Request) -> Sequence[Report]:
        """Return the reports of a request; none if it cannot be read, which its own task says."""
        if request.reports is None:
            reports: Sequence[Report] = ()
            try:
                reports = await read_reports(self._session, request.body, request.path)
            except (ValueError, EventLeftOut) as error:
                request.error = error
            else:
                if not reports:
                    logger.warning("request without an event", instance=self._session.instance)
            # Now, not before: the task that reads it may be that of another request, and end meanwhile.
            request.reports = reports
        return request.reports

    def _kind_of(self, report: Report) -> str:
        """Return the kind of an event; empty if hookgw has none, with a line in the log for each name."""
        if report.is_beside:
            return ""
        try:
            return self._session.catalog.resolve(report.event, "event").name
        except Invalid as error:
            if report.event not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
                self._unknown.add(report.event)
                logger.warning("event without a kind", instance=self._session.instance, reason=str(error))
            return ""

    async def _take(self, report: Report) -> None:
        kind = self._kind_of(report)
        try:
            if kind == "CONNECTION_UPDATE" and await self.connection.take_connection_update(report):
                return
            if kind == "QRCODE_UPDATED" and await self.connection.take_code(report):
                return
            if kind or report.event:
                await self._store(kind, report)
        except (Invalid, TooLarge) as error:
            # Too large, or against the schema of its kind: no repetition would change that.
            logger.warning("event left out", instance=self._session.instance, kind=kind, reason=str(error))

    async def _store(self, kind: str, report: Report) -> None:
        """Store an event; repaired if need be, and a long list in parts, with one event for each."""
        try:
            await self._emit([self._event(kind, report)])
        except (Invalid, TooLarge):
            # The links to its files may make a list larger, which was not too large before.
            again = report if report.data_json is None else repaired(report)
            if again is None:
                raise
        else:
            return
        # A history sync has more messages in its lists than fit into one event.
        parts = 1
        while True:
            try:
                await self._emit([self._event(kind, part) for part in again.parts(parts)])
            except (Invalid, TooLarge):
                parts *= 2
                if not isinstance(again.data, list) or parts > min(len(again.data), _MOST_PARTS):
                    raise
            else:
                return

    def _event(self, kind: str, report: Report) -> NewEvent:
        if not kind:
            value = msgspec.json.encode(report.data) if report.data_json is None else report.data_json
            return network_event("evolution", report.event, value, report.event_id(""), sender=report.sender)
        options = self.connection.options
        data, data_json = report.data, report.data_json
        has_file = kind in _MESSAGES and (data_json is None or may_have_file(data_json))
        # A file inside goes only to registrations that ask for it: the session sees to that, if it has the
        # data.
        if data_json is not None and (has_file or b'"base64"' in data_json):
            with suppress(ValueError):  # too many values for one step: better with its files than not at all
                data, data_json = decode_json(data_json) if data is None else data, None
        has_links = options is not None and options.media_links
        if has_file and data_json is None and (content := file_of(data)) is not None:
            data = {**data, "message": {**data["message"]}}  # its own: the file comes into it
            if has_links:
                data = with_link(data, content, self._session)
        if (kind == _EDIT and _key_of_author(data) is not None) or (kind == _STATUS and _is_cut(data)):
            data, data_json = {**data}, None  # its own: another key or chat comes into it
        if has_links and kind == "MESSAGES_SET" and (data_json is None or may_have_file(data_json)):
            with suppress(ValueError):  # as above
                whole = decode_json(data_json) if data is None and data_json is not None else data
                if isinstance(whole, list):
                    data, data_json = [self._with_link(one) for one in whole], None
        return NewEvent(
            kind=kind,
            data=data,
            data_json=data_json,
            event_id=report.event_id(kind),
            sender=report.sender,
        )

    def _with_link(self, message: Any) -> Any:
        content = file_of(message)
        return message if content is None else with_link(message, content, self._session)

    def _missing_files(self, events: Sequence[NewEvent]) -> list[tuple[NewEvent, int]]:
        """Return the events of messages whose file registrations want inside, each with the file's size."""
        if not self._session.wants_base64():
            return []
        found = []
        for event in events:
            if event.kind in _MESSAGES and event.data_json is None:
                content = file_of(event.data)
                if content is not None and not event.data["message"].get("base64"):
                    found.append((event, size_of(content)))
        return found

    async def _emit(self, events: Sequence[NewEvent]) -> None:
        """Store events, with what Evolution API tells only when it is asked."""
        await self._complete(events)
        await self._session.emit_all(events)

    async def _complete(self, events: Sequence[NewEvent]) -> None:
        """Put files into messages if a registration asks for them, and right keys into edits and statuses."""
        async with trio.open_nursery() as nursery:
            for number, (event, size) in enumerate(self._missing_files(events)):
                is_late = number >= _MOST_FILES or trio.current_time() < self._slow_until
                nursery.start_soon(self._put_file, event, size, 0 if is_late else FILE_TIME)
            asked = [one for one in events if one.kind in (_EDIT, _STATUS) and one.data_json is None]
            if asked and trio.current_time() >= self._slow_until:
                nursery.start_soon(self._put_keys, asked)

    async def _put_keys(self, events: Sequence[NewEvent]) -> None:
        client = self.connection.client
        if client is None:
            return
        with trio.move_on_after(KEY_TIME) as scope, suppress(NetworkRefused):
            for event in events:
                if event.kind == _STATUS and _is_cut(event.data):
                    await self._put_chat(client, event.data)
                elif event.kind == _EDIT and (key := _key_of_author(event.data)):
                    event.data["key"] = await stored_key(client, key["id"]) or key
        if scope.cancelled_caught:
            self._slow_until = trio.current_time() + _SLOW_FOR

    async def _put_chat(self, client: Client, status: dict[str, Any]) -> None:
        cut, message = status["remoteJid"], status["keyId"]
        chat = self._chats.get(cut)
        if chat is None and not self._without_chat.get(message):
            names = jids_of(await stored_key(client, message))
            found = next((name for name in names if name.partition("@")[0] == cut), None)
            if found is None:
                # Evolution API may store no messages, or not yet this one: the chat's next one is looked up.
                self._without_chat.put(message, True)
                return
            chat = {"remoteJid": found}
            if found != names[0]:
                chat["remoteJidAlt"] = names[0]
            self._chats.put(cut, chat)
        status |= chat or {}

    async def _put_file(self, event: NewEvent, size: int, seconds: float) -> None:
        client = self.connection.client
        if client is not None:
            read = partial(small_file, client, event.data)
            found = await attach_file(self._session, event, read, size=size, seconds=seconds, logger=logger)
            if found is None and seconds:
                self._slow_until = trio.current_time() + _SLOW_FOR


def _key_of_author(edit: Any) -> dict[str, Any] | None:
    """Return the key in an edit or a deletion if it may be the one that the author sees; or else ``None``.

    Evolution API passes it on as it comes: of another person's message, the chat is the account itself, and
    ``fromMe`` is true.
    """
    key = mapping(mapping(edit).get("key"))
    is_private = text(key.get("remoteJid")).endswith(_PEOPLE)
    return key if is_private and key.get("fromMe") is True and text(key.get("id")) else None


def _is_cut(status: Any) -> bool:
    """Return whether a status has a part of the name of its chat.

    Linked devices acknowledge messages, too, as ``5511988887777:12@s.whatsapp.net``. Evolution API 2.4 cuts
    off what follows the colon, also behind the number of an ``@lid``.
    """
    said = mapping(status)
    return text(said.get("remoteJid")).isdecimal() and bool(text(said.get("keyId")))
