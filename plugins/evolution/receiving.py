"""Stores what Evolution API posts: in the order of arrival, and several requests in one commit."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
import trio

from hookgw import Invalid, NewEvent, TooLarge

from .connection import Connection
from .events import Report, repaired
from .media import with_link

_MOST_UNKNOWN = 100
_MOST_PARTS = 256
_LARGEST_BATCH = 2**20
"""Bytes of the events that are stored in one commit; one event may have more."""

logger = structlog.get_logger("hookgw.evolution")


class _Request:
    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = reports
        self.is_stored = False


class Receiver:
    """Stores the events of one connection.

    Args:
        connection: hears of states and codes.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        self._turn = trio.Lock()
        self._waiting: list[_Request] = []
        self._unknown: set[str] = set()

    async def take(self, reports: Sequence[Report]) -> None:
        """Store the events of a request; those of requests that arrived before are stored before.

        What hookgw will never take is left out, with a line in the log.

        Raises:
            Unavailable: hookgw cannot store events now.
        """
        request = _Request(reports)
        self._waiting.append(request)
        try:
            # A commit for each request would be slow: who has the turn stores what waits by then, too.
            async with self._turn:
                while not request.is_stored:
                    await self._store_first()
        finally:
            if not request.is_stored:  # it is repeated
                self._waiting.remove(request)

    async def _store_first(self) -> None:
        """Store the requests that have waited for longest: all up to a state or a code, or one."""
        events: list[NewEvent] = []
        size = count = 0
        for request in self._waiting:
            kinds = [self._kind_of(report) for report in request.reports]
            size += sum(len(report.data_json or b"") for report in request.reports)
            if {"CONNECTION_UPDATE", "QRCODE_UPDATED"} & set(kinds) or (count and size > _LARGEST_BATCH):
                break
            pairs = zip(request.reports, kinds, strict=True)
            events += [self._event(kind, report) for report, kind in pairs if kind]
            count += 1
        first = self._waiting[0]
        if count:
            try:
                await self._session.emit_all(events)
            except (Invalid, TooLarge):
                count = 0  # one of them: each for itself
        if not count:
            for report in first.reports:
                await self._take(report)
            count = 1
        for request in self._waiting[:count]:
            request.is_stored = True
        del self._waiting[:count]

    def _kind_of(self, report: Report) -> str:
        """Return the kind of an event; empty, with a line in the log, if hookgw does not know it."""
        try:
            return self._session.catalog.resolve(report.event, "event").name
        except Invalid as error:
            if report.event not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
                self._unknown.add(report.event)
                logger.warning("unknown event left out", instance=self._session.instance, reason=str(error))
            return ""

    async def _take(self, report: Report) -> None:
        kind = self._kind_of(report)
        try:
            if kind == "CONNECTION_UPDATE" and await self._connection.take_connection_update(report):
                return
            if kind == "QRCODE_UPDATED" and await self._connection.take_code(report):
                return
            if kind:
                await self._store(kind, report)
        except (Invalid, TooLarge) as error:
            # Too large, or against the schema of its kind: no repetition would change that.
            logger.warning("event left out", instance=self._session.instance, kind=kind, reason=str(error))

    async def _store(self, kind: str, report: Report) -> None:
        """Store an event; repaired if need be, and a long list in parts, with one event for each."""
        try:
            await self._session.emit_all([self._event(kind, report)])
        except (Invalid, TooLarge):
            again = repaired(report)
            if again is None:
                raise
        else:
            return
        # A history sync has more messages in its lists than fit into one event.
        parts = 1
        while True:
            try:
                await self._session.emit_all([self._event(kind, part) for part in again.parts(parts)])
            except (Invalid, TooLarge):
                parts *= 2
                if not isinstance(again.data, list) or parts > min(len(again.data), _MOST_PARTS):
                    raise
            else:
                return

    def _event(self, kind: str, report: Report) -> NewEvent:
        options = self._connection.options
        data, data_json = report.data, report.data_json
        has_link = options is not None and options.media_links and kind in ("MESSAGES_UPSERT", "SEND_MESSAGE")
        # A file inside goes only to registrations that ask for it: the session sees to that, if it has the
        # data.
        if data_json is not None and (has_link or b'"base64"' in data_json):
            data_json = None
        if has_link:
            data = with_link(data, self._session)
        return NewEvent(
            kind=kind, data=data, data_json=data_json, event_id=report.event_id(kind), sender=report.sender
        )
