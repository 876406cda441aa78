"""One phone number: its health, and what arrives for it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from functools import partial

import structlog
import trio

from hookgw import ConnectionState, NetworkRefused, Session
from hookgw import connectors as kit
from hookgw.connectors import items, text

from . import events
from .client import Client, Refused
from .errors import code_of
from .events import Knowledge, Received
from .options import PLUGIN, Options
from .turns import Turns
from .webhooks import EVENTS, Change, read_changes

logger = structlog.get_logger("hookgw.whatsapp_cloud")

CHECK_EVERY = 300.0
"""Seconds between two checks of the number."""
MOST_FAILURES = 3
"""Failed checks in a row after which an open connection is reported as lost."""
CHECK_TIME = kit.REQUEST_TIMEOUT + 5.0
"""Seconds that a check may take."""
FILE_TIME = 4.0
"""Seconds after a request in which its files are fetched, for registrations with base64. Meta expects quick
answers, and hookgw allows 10 s."""
_FILES_AT_ONCE = 4
_MOST_FILES = 8 * 2**20
"""Bytes of files in the events of a request, beyond which the others get none."""
_KNOWN_MESSAGES = 20_000
_KNOWN_CHATS = 20_000
_MOST_UNREAD = 1_000
_MOST_TOLD = 100
_TELL_AGAIN = 3600.0


class Connection(kit.WatchedConnection):
    """A number that is connected, or tries to be.

    Requests of Meta are answered also while it is not open: what people write must not depend on a token.
    """

    def __init__(self, session: Session, options: Options, nursery: trio.Nursery) -> None:
        super().__init__(session, nursery)
        self.client = Client(session, options)
        self.options = options
        self._turns = Turns()
        self._file_limit = trio.CapacityLimiter(_FILES_AT_ONCE)
        self._received: kit.Recent[str, bool] = kit.Recent(_KNOWN_MESSAGES)
        self._newest: kit.Recent[str, str] = kit.Recent(_KNOWN_CHATS)
        self._told: kit.Recent[str, float] = kit.Recent(_MOST_TOLD)
        self._send_unread, self._unread = trio.open_memory_channel[str](_MOST_UNREAD)
        self._known = Knowledge(
            media_url=session.media_url,
            is_received=lambda id_: self._received.get(id_) is not None,
            has_kind=lambda kind: session.catalog.get(kind) is not None,
        )

    def doubt(self, refusal: NetworkRefused) -> None:
        """Check the number at once if a refusal says that the access token is no longer taken."""
        if isinstance(refusal, Refused) and refusal.error.is_token_refused:
            self.wake()

    async def mark_received_as_read(self) -> None:
        """Mark what arrives as read, as far as the settings want it, until cancelled."""
        async for id_ in self._unread:
            try:
                await self.mark_read(id_)
            except NetworkRefused as error:
                self.doubt(error)
                logger.warning(
                    "not marked as read", instance=self.session.instance, message=id_, reason=str(error)
                )

    async def mark_read(self, id_: str, *, is_typing: bool = False) -> None:
        """Mark a message as read, and all messages before it; also show that the number types."""
        body: dict[str, object] = {"status": "read", "message_id": id_}
        if is_typing:
            body["typing_indicator"] = {"type": "text"}
        await self.client.post_message(body)

    def newest_in(self, chat: str) -> str | None:
        """Return the id of the newest message that somebody has sent in a chat, as far as it is known."""
        return self._newest.get(chat)

    async def receive(self, body: bytes) -> None:
        """Store the events of a notification, after those of all notifications that arrived before it.

        Raises:
            Invalid: the body is no JSON object.
            Unavailable: they cannot be stored now.
        """
        with self._turns.join() as turn:
            notification = await kit.read_object(self.session, body, events=EVENTS)
            received = await self.session.in_turns(self._translate_all(read_changes(notification, body)))
            if self.session.settings.groups_ignore:
                received = [one for one in received if not one.chat.endswith("@g.us")]
            if self.session.wants_base64():
                await self._put_files(received)
            await turn.wait()
            if received:
                await kit.emit_valid(self.session, [one.event for one in received], logger=logger)
        for one in received:
            # A repeated one is no news: Meta may repeat it days later.
            if not one.message_id or self._received.get(one.message_id):
                continue
            self._received.put(one.message_id, True)
            self._newest.put(one.chat, one.message_id)
            if self.session.settings.read_messages:
                try:
                    self._send_unread.send_nowait(one.message_id)
                except trio.WouldBlock:
                    self.tell("too many messages to mark as read", waiting=_MOST_UNREAD)

    def _is_mine(self, change: Change) -> bool:
        if change.phone_number_id in ("", self.options.phone_number_id):
            return True
        # An app has one URL for all numbers of all its accounts.
        self.tell("request for another phone number", phone_number_id=change.phone_number_id[:40])
        return False

    def _translate_all(self, changes: Iterable[Change]) -> Generator[None, None, list[Received]]:
        received = []
        for change in changes:
            if not self._is_mine(change):
                continue
            for one in events.translate(change, self._known):
                received.append(one)
                yield
            for error in items(change.value.get("errors")):
                logger.warning(
                    "meta reports an error",
                    instance=self.session.instance,
                    code=code_of(error),
                    reason=text(error.get("title"))[:200],
                )
        return received

    async def _put_files(self, received: Sequence[Received]) -> None:
        """Put files into their events, beside the links. Without its file, an event is still complete."""
        size, deadline = 0, trio.current_time() + FILE_TIME
        for one in received:
            if one.media_id:
                read = partial(self._read_file, one.media_id)
                seconds = deadline - trio.current_time() if size < _MOST_FILES else 0
                size += (
                    await kit.attach_file(self.session, one.event, read, seconds=seconds, logger=logger) or 0
                )

    async def _read_file(self, media_id: str, limit: int) -> bytes:
        async with self._file_limit, self.client.download(media_id, limit=limit) as (response, _, _):
            return await kit.read_file(response, limit)

    async def look(self) -> float:
        """Ask for the number, and report the open connection; return the seconds to the next check."""
        found = None
        with trio.move_on_after(CHECK_TIME):
            found = await self.client.number("display_phone_number", "verified_name", "quality_rating")
        if found is None:
            raise kit.Unreachable(f"The Graph API did not answer within {CHECK_TIME:g} s.")
        digits = re.sub("[^0-9]", "", text(found.get("display_phone_number")))
        if not digits:
            raise kit.Unreachable("The Graph API did not describe the phone number.")
        await self.report_open(
            wuid=f"{digits}@s.whatsapp.net",
            profileName=text(found.get("verified_name")),
            qualityRating=text(found.get("quality_rating")),
        )
        return CHECK_EVERY

    async def note_failure(self, error: NetworkRefused, failures: int) -> float:
        """Report a failed check; return the seconds until the next one."""
        if isinstance(error, Refused) and not error.error.is_temporary:
            await self._refuse(error)
            return CHECK_EVERY
        logger.warning("number not checked", instance=self.session.instance, reason=str(error))
        # Some broken requests are no lost connection, and a limit on calls is no reason to stop sending.
        if self.is_open and failures >= MOST_FAILURES and error.retry_after is None:
            self.is_open = False
            await self.session.set_state(ConnectionState.CONNECTING)
        return kit.wait_after(error, failures)

    async def _refuse(self, refusal: Refused) -> None:
        if refusal.error.is_token_refused:
            reason = kit.StatusReason.LOGGED_OUT
            message = (
                f"Meta refuses the access token: {refusal} Create a token of a system user, and set it as "
                f"access_token with PATCH /instance/options/{self.session.instance}, or in the configuration "
                f"(plugins.options.{PLUGIN})."
            )
        else:
            reason = kit.StatusReason.FORBIDDEN
            message = (
                f"Meta refuses the phone number {self.options.phone_number_id}: {refusal} "
                "Check phone_number_id, and whether the token has the permission whatsapp_business_messaging "
                "for its account."
            )
        await self.close(reason, message)

    def tell(self, what: str, **more: str | int) -> None:
        """Log something that may happen with each request, once in an hour."""
        told, now = f"{what} {more}", trio.current_time()
        last = self._told.get(told)
        if last is None or now - last > _TELL_AGAIN:
            self._told.put(told, now)
            logger.warning(what, instance=self.session.instance, **more)
