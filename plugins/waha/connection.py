"""One session of a WAHA server: its webhook, its status, and its calls."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import structlog
import trio

from hookgw import ConnectionState, NetworkRefused, NewEvent, QRCode, Session
from hookgw.connectors import (
    Recent,
    StatusReason,
    WatchedConnection,
    found_at,
    mapping,
    text,
)

from .client import FILE_TIMEOUT, Client, Refused
from .content import path_of, reference_of
from .events import Account, chats_in
from .history import messages_between
from .ids import chat_id_of, is_group, is_typed_brazilian_number, jid_of, parse_message_id
from .options import Options
from .remote_session import RemoteSession, State

logger = structlog.get_logger("hookgw.waha")

CHECK_EVERY = 45.0
"""Seconds between two looks at a session that works: a webhook that is gone is back within a minute."""
_CONNECTING_EVERY, _QR_CODE_EVERY = 3.0, 10.0
_PAIRING_TIME = 150.0
"""Seconds for which a code to type is shown; WhatsApp takes it for some three minutes."""
_WAITS = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before a session is started again."""
_KNOWN_MESSAGES, _KNOWN_NUMBERS = 10_000, 10_000
# Which goes on with a login that WhatsApp has ended, restart after restart. Other engines show a code.
_STUBBORN_ENGINE = "NOWEB"
_OLDEST_SIGNING = (2024, 11, 5)
"""The version since which WAHA Core, too, signs its requests."""
# Whose calls take an id for the message, by which WhatsApp recognises a repetition.
_CHOOSING_ENGINES = frozenset({"NOWEB", "GOWS"})
_UNSIGNED = 501
"""A reason of CONNECTION_UPDATE."""


class Connection(WatchedConnection):
    """A session of a WAHA server.

    Attributes:
        client: makes the requests.
        remote: the session on the server.
        engine: the session's engine; empty while it is not known.
        me: WAHA's id of the account; empty while it is not known.
        is_behind: whether hookgw may have missed something.
        sent, done: see :class:`~.events.Account`.
    """

    network = "WAHA"

    def __init__(self, session: Session, options: Options, state: State, nursery: trio.Nursery) -> None:
        super().__init__(session, nursery)
        self.options = options
        self.state = state
        self.client = Client(session, options.base_url, options.api_key)
        self.remote = RemoteSession(self.client, session, options, state)
        self.engine = ""
        self.me = ""
        self.is_behind = True
        self.sent: Recent[str, str] = Recent(_KNOWN_MESSAGES)
        self.done: Recent[tuple[str, ...], str] = Recent(_KNOWN_MESSAGES)
        self.fetching = trio.Lock()
        self._numbers: Recent[str, str] = Recent(_KNOWN_NUMBERS)
        self._changing = trio.Lock()
        self._is_ending = False
        self._status = ""
        self._is_linked = False
        # As an earlier run has left it: a run does not log out an account that fails while it looks.
        self._may_log_out = state.unlinked
        # By its version, and by its requests; None while it is not known.
        self._can_sign: bool | None = None
        self._signs: bool | None = None
        self._has_asked_version = False
        self._code = ""
        self._pairing_code: str | None = None
        self._pairing_until = float("-inf")
        self._starts = self._failed_restarts = 0
        self._stopped_at: float | None = None

    def account(self, report: str) -> Account:
        """Return what the translation of a report has to know."""
        return Account(
            jid=jid_of(self.me) if self.me else "",
            media_url=self.session.media_url,
            report=report,
            sent=self.sent,
            done=self.done,
        )

    def note_request(self, *, is_signed: bool) -> None:
        """Note a request that has a right proof, or none at all: older versions of WAHA Core send none."""
        if self.is_behind:
            self.wake()  # the server reaches hookgw: perhaps it can be reached again, too
        # Once requests were signed, one without a proof is somebody else's.
        if self._signs is not True and self._signs is not is_signed:
            self._signs = is_signed
            self.wake()

    async def run(self) -> None:
        """Keep the session running and its webhook set, until cancelled."""
        if not self.options.hmac_key and not self.state.hmac_key:
            self.state.hmac_key = secrets.token_urlsafe(32)
            await self.remote.save()
        self.client.secrets.add(self.remote.hmac_key.decode())
        self._lose_touch()
        await self.watch()

    def _lose_touch(self) -> None:
        self.is_behind = True
        self.session.lost_touch()

    def _missed(self, begin: float, end: float) -> AsyncGenerator[Sequence[NewEvent], None]:
        def is_wanted(event: NewEvent) -> bool:
            return not self.ignores(event, {}) and self.session.catalog.get(event.kind) is not None

        return messages_between(
            self.client, self.options.session, self.me, self.account, is_wanted, begin, end
        )

    async def note_failure(self, error: NetworkRefused, failures: int) -> float:
        """Report it, and wait: the server's requests wake, and may go on while its API fails."""
        self._lose_touch()
        wait, pause = await super().note_failure(error, failures), min(error.retry_after or _WAITS[0], 300)
        await trio.sleep(pause)
        return max(wait - pause, 0)

    async def look(self) -> float:
        """Compare the session with what it should be, and change it; return the seconds to the next look."""
        if not await self._check_version():
            return CHECK_EVERY
        async with self._changing:
            if self._is_ending:
                return CHECK_EVERY
            info = await self.remote.find()
            if info is None:
                if self._is_linked:
                    await self._lose("was deleted on the WAHA server. hookgw makes it again: scan the code.")
                info = await self.remote.create()
            info = await self.remote.set_webhook(info)
        former, status = self._status, text(info["status"])
        self._status = status
        self.engine = self.client.engine = text(found_at(info, "engine", "engine")) or self.engine
        if status != "STOPPED":
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = trio.current_time()
        if status == "WORKING":
            await self._opened(mapping(info.get("me")))
            return CHECK_EVERY
        if status in ("STOPPED", "FAILED"):
            return await self._ended(status)
        return await self._connecting(status, former)

    async def _connecting(self, status: str, former: str) -> float:
        if status == "SCAN_QR_CODE" and self._is_linked:
            await self._lose(
                "is no longer logged in: the account was unlinked on the phone, or the session was deleted"
                " and made again. Scan the QR code."
            )
        self.is_open = False
        await self.session.set_state(ConnectionState.CONNECTING)
        if status == "SCAN_QR_CODE":
            await self._recovered()
            await self._show_code()
            return _QR_CODE_EVERY
        if status.startswith("PASSKEY") and not former.startswith("PASSKEY"):
            words = "WhatsApp wants a passkey: confirm it on WAHA's dashboard"
            logger.warning(words, instance=self.session.instance)
        return _CONNECTING_EVERY

    async def _check_version(self) -> bool:
        """Return whether the server signs its requests, as far as that is known; report one that does not."""
        is_refused = self._can_sign is False or (self._can_sign is None and self._signs is False)
        if self._has_asked_version and not is_refused:
            return True
        self._has_asked_version = True
        try:
            said = mapping(await self.client.call("GET", "server", "version"))
        except Refused:
            said = {}  # a key of the session may not ask for it
        self.client.edition = text(said.get("tier"))
        self.engine = self.client.engine = self.engine or text(said.get("engine"))
        version = text(said.get("version"))
        numbers = tuple(map(int, re.findall("[0-9]{1,6}", version)[:3]))
        is_known = len(numbers) == len(_OLDEST_SIGNING) and self.client.edition in ("CORE", "PLUS")
        self._can_sign = None
        if is_known:
            self._can_sign = self.client.edition == "PLUS" or numbers >= _OLDEST_SIGNING
        if self._can_sign or (self._can_sign is None and self._signs is not False):
            return True
        oldest = ".".join(map(str, _OLDEST_SIGNING))
        words = (
            f"WAHA does not sign its requests, so hookgw takes none of them. WAHA Core signs since {oldest}"
        )
        await self.close(_UNSIGNED, f"{words}; this is {version or 'another version'}. Update it.")
        return False

    async def _lose(self, how: str) -> None:
        """Report that the session has lost its account: it needs a code, and perhaps hookgw's webhook."""
        self._is_linked = False
        self.state.wanted = ""  # a server that shows no webhooks may have lost it, too
        await self.close(StatusReason.LOGGED_OUT, f"The session {self.options.session} {how}")

    async def _recovered(self) -> None:
        self._starts = self._failed_restarts = 0
        if self.state.unlinked:
            self.state.unlinked = False
            await self.remote.save()

    async def _opened(self, me: dict[str, Any]) -> None:
        await self._recovered()
        self._code, former = "", self.me
        self.me = text(me.get("id")) or self.me
        if self.is_open and former and jid_of(former) != jid_of(self.me):
            await self._lose("was logged in with another account on the WAHA server.")
        await self.session.catch_up(self._missed)
        self.is_behind = False
        wuid = jid_of(self.me) if self.me else ""
        await self.report_open(wuid=wuid, profileName=text(me.get("pushName")))
        self._is_linked = True

    async def _ended(self, status: str) -> float:
        name = f"The session {self.options.session}"
        if status == "FAILED" and self._code:
            # Nothing is done about it: WAHA would show codes for ever. Reports are taken all the same, if the
            # account is connected on WAHA's dashboard. "connect" begins another run, with another code.
            words = (
                f"{name} failed on the WAHA server: nobody scanned the QR code. Connect the instance again."
            )
            await self.close(StatusReason.LOGGED_OUT, words)
            return CHECK_EVERY
        if (
            self.is_open
            and self._stopped_at is not None
            and trio.current_time() < self._stopped_at + _WAITS[0]
        ):
            return _WAITS[0]  # for a restart, a session is stopped for a moment
        restarts = 1 if self._may_log_out else len(_WAITS)
        if status == "FAILED" and self.engine == _STUBBORN_ENGINE and self._failed_restarts >= restarts:
            return await self._end_login()
        # In its first look, a run only starts the session: the caller of "connect" waits for a code.
        if (self.is_open or self._starts) and status == "STOPPED":
            words = f"{name} was stopped on the WAHA server. hookgw starts it again."
            await self.close(StatusReason.CONNECTION_CLOSED, words)
        elif self.is_open or self._starts:
            words = f"{name} failed on the WAHA server. hookgw restarts it."
            await self.close(StatusReason.BAD_SESSION, words)

        self._starts += 1
        if self._starts > 1 and await self.woken_within(_WAITS[min(self._starts, len(_WAITS)) - 1]):
            return 0.0  # something has changed meanwhile
        try:
            await self.remote.call("start" if status == "STOPPED" else "restart")
        except Refused as error:
            if error.remote_status != 422:
                raise
            # In older versions: it runs already.
        self._failed_restarts += status == "FAILED"
        return _CONNECTING_EVERY

    async def _end_login(self) -> float:
        """Log out a session that no restart helps; in the run that finds it out, only say so.

        A logout cannot be undone. So it waits until somebody connects the instance again, and one more
        restart has failed.
        """
        if self._may_log_out:
            self._may_log_out = False
            logger.info("logging out a WAHA session that fails", instance=self.session.instance)
            await self.remote.call("logout")
            await self._recovered()
            return _CONNECTING_EVERY
        if not self.state.unlinked:
            self.state.unlinked = True
            await self.remote.save()
        words = (
            f"The session {self.options.session} fails after each restart: the account was probably unlinked"
            " on the phone. Connect the instance again: hookgw then logs the session out on the WAHA server,"
            " which shows a QR code."
        )
        await self.close(StatusReason.LOGGED_OUT, words)
        return CHECK_EVERY

    async def remove_webhook(self) -> None:
        """Take hookgw's webhook out of the session's configuration."""
        self._is_ending = True  # or the next look would set it again
        async with self._changing:
            await self.remote.remove_webhook()

    async def log_out(self) -> None:
        """Log the account out of WhatsApp, and leave the session stopped and without a webhook."""
        self._is_ending = True
        await self.remote.call("logout")
        await self.remote.call("stop")
        await self.remove_webhook()  # a stopped session is not started for this

    async def restart(self) -> None:
        await self.remote.call("restart")

    async def _show_code(self) -> None:
        path = (self.options.session, "auth", "qr")
        try:
            code = text(mapping(await self.client.call("GET", *path, query={"format": "raw"})).get("value"))
            if not code or code == self._code:
                return
            picture = mapping(await self.client.call("GET", *path, query={"format": "image"}))
        except Refused as error:
            if error.remote_status not in (404, 422):
                raise
            return  # the code was scanned in this moment, or there is none yet
        base64 = f"data:{text(picture.get('mimetype')) or 'image/png'};base64,{text(picture.get('data'))}"
        pairing_code = await self._pairing_code_of(self.session.pairing_number or self.options.number)
        self._code = code
        await self.session.show_qr_code(QRCode(code=code, base64=base64, pairing_code=pairing_code))

    async def _pairing_code_of(self, number: str) -> str | None:
        """Return a code to type on the phone with a number; ``None`` for no number, or if WAHA makes none."""
        if number and trio.current_time() >= self._pairing_until:
            # A new one for each QR code would end before anybody has typed it.
            self._pairing_until = trio.current_time() + _PAIRING_TIME
            try:
                path = (self.options.session, "auth", "request-code")
                answer = await self.client.call("POST", *path, body={"phoneNumber": number})
                self._pairing_code = text(mapping(answer).get("code")) or None
            except Refused as error:
                logger.warning("no pairing code", instance=self.session.instance, reason=str(error))
                self._pairing_code = None
        return self._pairing_code

    async def fetch_again(self, message_id: str) -> list[str] | None:
        """Let the server fetch the file of a message from WhatsApp; return its path, or ``None``."""
        parsed = parse_message_id(message_id)
        if parsed is None:
            return None
        path = (self.options.session, "chats", parsed.chat, "messages", message_id)
        try:
            message = await self.client.call(
                "GET", *path, query={"downloadMedia": "true"}, seconds=FILE_TIMEOUT
            )
        except NetworkRefused as error:
            logger.info("file not fetched again", instance=self.session.instance, reason=str(error))
            return None
        return path_of(reference_of(text(found_at(message, "media", "url"))))

    async def chat_of(self, number: str) -> str:
        """Return WAHA's id of the chat for the ``number`` of a call.

        Raises:
            Invalid: it is neither a phone number nor a chat.
            NetworkRefused: nobody on WhatsApp has this number.
        """
        chat = chat_id_of(number)
        if not is_typed_brazilian_number(number, chat):
            return chat
        known = self._numbers.get(chat)
        if known is None:
            known = await self.find_number(chat)
            if not known:
                reason = f"Nobody on WhatsApp has the number {number}."
                raise NetworkRefused(reason, status=400, unknown_numbers={number: jid_of(chat)})
            self._numbers.put(chat, known)
        return known

    async def find_number(self, chat: str) -> str:
        """Return WAHA's id of the chat of a phone number; empty if nobody on WhatsApp has it."""
        query = {"phone": chat.partition("@")[0], "session": self.options.session}
        answer = mapping(await self.client.call("GET", "contacts", "check-exists", query=query))
        if answer.get("numberExists") is not True:
            return ""
        # Of newer accounts, "chatId" may be the hidden id.
        return text(answer.get("pn")) or text(answer.get("chatId")) or chat

    def chosen_id(self, id_: str) -> dict[str, str]:
        """Return the field that gives a message its id, on engines that let the caller choose it."""
        return {"id": id_} if self.engine in _CHOOSING_ENGINES else {}

    async def show_online(self, is_online: bool) -> None:
        await self.set_presence("online" if is_online else "offline")

    async def set_presence(self, presence: str, chat: str = "") -> None:
        """Show a presence of WAHA, in a chat or of the account as a whole."""
        body = {"presence": presence, **({"chatId": chat} if chat else {})}
        await self.client.call("POST", self.options.session, "presence", body=body)

    async def stop_typing(self, chat: str, delay: float) -> None:
        """Show after a delay in seconds that the account no longer types."""
        await trio.sleep(delay)
        body = {"session": self.options.session, "chatId": chat}
        await self.client.call("POST", "stopTyping", body=body)

    def ignores(self, event: NewEvent, payload: dict[str, Any]) -> bool:
        """Return whether the account's settings leave an event out, which WAHA reported with a payload."""
        if not self.settings.groups_ignore:
            return False
        if event.data is None:
            return any(map(is_group, chats_in(payload)))
        data = mapping(event.data)
        return is_group(text(mapping(data.get("key")).get("remoteJid") or data.get("remoteJid")))

    def answer_event(self, event: NewEvent, payload: dict[str, Any]) -> None:
        """Do what the account's settings want after an event."""
        name, settings = self.options.session, self.settings
        if event.kind == "MESSAGES_UPSERT" and not event.data["key"]["fromMe"]:
            chat = chat_id_or_empty(event.data["key"]["remoteJid"])
            is_status = chat == "status@broadcast"
            if chat and (settings.read_status if is_status else settings.read_messages):
                body: dict[str, Any] = {
                    "session": name,
                    "chatId": chat,
                    "messageIds": [text(payload.get("id"))],
                }
                if participant := text(event.data["key"].get("participant")):
                    body["participant"] = chat_id_or_empty(participant)
                self.in_background(self.client.call, "POST", "sendSeen", body=body)
        elif event.kind == "CALL" and settings.reject_call and event.data[0]["status"] == "offer":
            self.in_background(self._reject_call, text(payload.get("from")), text(payload.get("id")))

    async def _reject_call(self, caller: str, call: str) -> None:
        name, words = self.options.session, self.settings.msg_call
        await self.client.call("POST", name, "calls", "reject", body={"from": caller, "id": call})
        if words and caller:
            body = {"session": name, "chatId": caller, "text": words}
            await self.client.call("POST", "sendText", body=body)


def chat_id_or_empty(jid: str) -> str:
    """Return WAHA's id of a chat of events; empty if there is none."""
    user, _, server = jid.partition("@")
    return f"{user}@c.us" if server == "s.whatsapp.net" else jid if server else ""
