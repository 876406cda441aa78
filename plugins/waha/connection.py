"""One session of a WAHA server: its webhook, its status, and its calls."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog
import trio

from hookgw import ConnectionState, InstanceSettings, NetworkRefused, NewEvent, QRCode, Recent, Session

from . import webhook
from .client import FILE_TIMEOUT, Client, Refused, Unreachable, names_in
from .content import path_of, reference_of
from .events import Account
from .fields import mapping, text
from .ids import chat_id_of, is_group, is_typed_brazilian_number, jid_of, parse_message_id
from .options import Options

logger = structlog.get_logger("hookgw.waha")

CHECK_EVERY = 45.0
"""Seconds between two looks at a session that works: a webhook that is gone is back within a minute."""
_CONNECTING_EVERY, _QR_CODE_EVERY = 3.0, 10.0
_WAITS = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before a look is repeated, or a session is started again."""
_TOLERATED = 2
"""Looks that may fail in a row before an open connection counts as closed."""
_KNOWN_MESSAGES, _KNOWN_NUMBERS = 10_000, 10_000
_UNSEEN = "unseen"
"""In the place of a fingerprint: the server does not show the webhook that was set."""
# Whose calls take an id for the message, by which WhatsApp recognises a repetition.
_CHOOSING_ENGINES = frozenset({"NOWEB", "GOWS"})
# Reasons of CONNECTION_UPDATE, in the numbers that receivers know from Baileys.
_LOGGED_OUT, _FORBIDDEN, _TIMED_OUT, _CONNECTION_CLOSED, _BAD_SESSION = 401, 403, 408, 428, 500


class State(msgspec.Struct, kw_only=True):
    """What survives a restart.

    Attributes:
        hmac_key: proves the server's requests; made up if the options have none.
        urls: where hookgw's webhook leads, or led, in the session's configuration.
        events: what the server knows of the wanted events; empty for all.
        wanted, shown: fingerprints of the webhook that was set last, and of how the server showed it.
    """

    hmac_key: str = ""
    urls: list[str] = []
    events: list[str] = []
    wanted: str = ""
    shown: str = ""

    # A repr reaches tracebacks.
    def __repr__(self) -> str:
        return f"State(wanted={self.wanted!r})"


class Connection:
    """A session of a WAHA server.

    Args:
        session: of the instance.
        options: of the instance.
        state: what is kept from the last run.
        nursery: runs what goes on after a call.

    Attributes:
        client: makes the requests.
        engine: the session's engine; empty while it is not known.
        me: WAHA's id of the account; empty while it is not known.
        settings: how the account should behave.
        sent, done: see :class:`~.events.Account`.
    """

    def __init__(self, session: Session, options: Options, state: State, nursery: trio.Nursery) -> None:
        self.session = session
        self.options = options
        self.state = state
        self.nursery = nursery
        self.client = Client(session.http, options.base_url, options.api_key)
        self.settings = session.settings
        self.engine = ""
        self.me = ""
        self.sent: Recent[str, str] = Recent(_KNOWN_MESSAGES)
        self.done: Recent[tuple[str, ...], str] = Recent(_KNOWN_MESSAGES)
        self.fetching = trio.Lock()
        self._numbers: Recent[str, str] = Recent(_KNOWN_NUMBERS)
        self._wake = trio.Event()
        self._changing = trio.Lock()
        self._is_ending = False
        self._has_asked = False
        self._status = ""
        self._is_open = False
        self._code = ""
        self._starts = 0
        self._stopped_at: float | None = None

    @property
    def hmac_key(self) -> bytes:
        """Proves the server's requests."""
        return (self.options.hmac_key or self.state.hmac_key).encode()

    def account(self, report: str) -> Account:
        """Return what the translation of a report has to know."""
        return Account(
            jid=jid_of(self.me) if self.me else "",
            media_url=self.session.media_url,
            report=report,
            sent=self.sent,
            done=self.done,
        )

    def wake(self) -> None:
        """Look at the session now: the server has said that its status changed."""
        self._wake.set()

    async def run(self) -> None:
        """Keep the session running and its webhook set, until cancelled."""
        if not self.options.hmac_key and not self.state.hmac_key:
            self.state.hmac_key = secrets.token_urlsafe(32)
            await self._save()
        self.client.secrets.add(self.hmac_key.decode())
        failures = 0
        while True:
            self._wake = trio.Event()
            try:
                wait = await self._look()
                failures = 0
            except NetworkRefused as error:
                failures += 1
                wait = max(_WAITS[min(failures, len(_WAITS)) - 1], min(error.retry_after or 0, 300))
                await self._report_failure(error, failures)
            with trio.move_on_after(wait):
                await self._wake.wait()

    async def _report_failure(self, error: NetworkRefused, failures: int) -> None:
        if failures in (1, _TOLERATED + 1):  # each look would fill the log
            logger.warning("WAHA not reached", instance=self.session.instance, reason=str(error))
        if isinstance(error, Refused) and error.http_status < 500 and error.http_status not in (408, 429):
            reason = _FORBIDDEN if error.is_unauthorized else _BAD_SESSION
            await self._close(reason, str(error))
        elif not self._is_open or failures > _TOLERATED:
            # The server may be back in a moment. Its requests to hookgw are answered meanwhile.
            await self._close(_TIMED_OUT, str(error))

    async def _close(self, reason: int, message: str) -> None:
        self._is_open = False
        await self.session.set_state(ConnectionState.CLOSE, reason, message=message)

    async def _look(self) -> float:
        """Compare the session with what it should be, and change it; return the seconds to the next look."""
        async with self._changing:
            if self._is_ending:
                return CHECK_EVERY
            info = await self._set_webhook(await self._find_session())
        former, status = self._status, text(info["status"])
        self._status = status
        self.engine = text(mapping(info.get("engine")).get("engine")) or self.engine
        if status != "STOPPED":
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = trio.current_time()
        if status == "WORKING":
            await self._opened(mapping(info.get("me")))
            return CHECK_EVERY
        if status in ("STOPPED", "FAILED"):
            return await self._ended(status)
        self._is_open = False
        await self.session.set_state(ConnectionState.CONNECTING)
        if status == "SCAN_QR_CODE":
            self._starts = 0
            await self._show_code()
            return _QR_CODE_EVERY
        if status.startswith("PASSKEY") and not former.startswith("PASSKEY"):
            words = "WhatsApp wants a passkey: confirm it on WAHA's dashboard"
            logger.warning(words, instance=self.session.instance)
        return _CONNECTING_EVERY

    async def _opened(self, me: dict[str, Any]) -> None:
        self._starts, self._code = 0, ""
        self.me = text(me.get("id")) or self.me
        more: dict[str, Any] = {"wuid": jid_of(self.me)} if self.me else {}
        if name := text(me.get("pushName")):
            more["profileName"] = name
        await self.session.set_state(ConnectionState.OPEN, **more)
        if not self._is_open and self.settings.always_online:
            self.in_background(self.set_presence, "online")
        self._is_open = True

    async def _ended(self, status: str) -> float:
        name = f"The session {self.options.session}"
        if status == "FAILED" and self._code:
            # Nothing is done about it: WAHA would show codes for ever. Reports are taken all the same, if the
            # account is connected on WAHA's dashboard. "connect" begins another run, with another code.
            words = (
                f"{name} failed on the WAHA server: nobody scanned the QR code. Connect the instance again."
            )
            await self._close(_LOGGED_OUT, words)
            return CHECK_EVERY
        if (
            self._is_open
            and self._stopped_at is not None
            and trio.current_time() < self._stopped_at + _WAITS[0]
        ):
            return _WAITS[0]  # for a restart, a session is stopped for a moment
        if self._is_open and status == "STOPPED":
            words = f"{name} was stopped on the WAHA server. hookgw starts it again."
            await self._close(_CONNECTION_CLOSED, words)
        elif self._is_open:
            await self._close(_BAD_SESSION, f"{name} failed on the WAHA server. hookgw restarts it.")
        self._starts += 1
        if self._starts > 1:
            with trio.move_on_after(_WAITS[min(self._starts, len(_WAITS)) - 1]):
                await self._wake.wait()
                return 0.0  # something has changed meanwhile
        try:
            how = "start" if status == "STOPPED" else "restart"
            await self.client.call("POST", "sessions", self.options.session, how, body={})
        except Refused as error:
            if error.http_status != 422:
                raise
            # In older versions: it runs already.
        return _CONNECTING_EVERY

    async def _find_session(self) -> dict[str, Any]:
        """Return the session, which is created if there is none."""
        try:
            return await self._get_session()
        except Refused as error:
            if error.http_status != 404:
                raise
        await self.client.call(
            "POST", "sessions", body={"name": self.options.session, "start": False, "config": {}}
        )
        return await self._get_session()

    async def _get_session(self) -> dict[str, Any]:
        info = await self.client.call("GET", "sessions", self.options.session)
        config = info.get("config") if isinstance(info, dict) else None
        webhooks = config.get("webhooks") if isinstance(config, dict) else None
        # The configuration is sent back with one webhook more: a misunderstanding must not lose the others.
        if (
            not isinstance(info, dict)
            or not text(info.get("status"))
            or not isinstance(config, dict | None)
            or not isinstance(webhooks, list | None)
        ):
            raise Unreachable("The WAHA server's answer does not describe a session. Is base_url right?")
        return info

    async def _set_webhook(self, info: dict[str, Any]) -> dict[str, Any]:
        """Set hookgw's webhook, unless it is there. Return the session.

        WAHA restarts a session for a change of its configuration, so this must be rare.
        """
        url = self.session.ingest_url or ""
        config = mapping(info.get("config"))
        ours, others = webhook.split(config, {url, *self.state.urls})
        key = self.hmac_key.decode()

        def is_set(wanted: dict[str, Any]) -> bool:
            # A server may show a webhook otherwise than it was set, such as without the key, or not at all.
            seen = webhook.fingerprint(ours[0]) if ours else _UNSEEN
            is_as_set = (self.state.wanted, self.state.shown) == (webhook.fingerprint(wanted), seen)
            return len(ours) <= 1 and (is_as_set or (bool(ours) and webhook.is_as_wanted(ours[0], wanted)))

        # A server that knew fewer events is asked again by each run: it may have been updated. A refusal
        # restarts nothing.
        asks_again = bool(self.state.events) and not self._has_asked
        if is_set(webhook.webhook_of(url, key, self.state.events or webhook.EVENTS)) and not asks_again:
            return info
        self._has_asked = True
        if url not in self.state.urls:
            # Before the webhook exists: whenever the process is killed, it is known as hookgw's.
            self.state.urls.append(url)
            await self._save()
        path = ("sessions", self.options.session)
        candidates = [list(webhook.EVENTS)]
        for events in candidates:  # the list grows meanwhile
            wanted = webhook.webhook_of(url, key, events)
            if len(candidates) > 1 and is_set(wanted):
                return info
            logger.info("setting the webhook of the WAHA session", instance=self.session.instance)
            try:
                await self.client.call(
                    "PUT", *path, body={"config": {**config, "webhooks": [*others, wanted]}}
                )
            except Refused as error:
                if error.http_status not in (400, 422) or events == list(webhook.OLD_EVENTS):
                    raise
                # The server knows fewer events. Its refusal mostly lists those that it knows.
                known = names_in(error.words, tuple(events))
                candidates.append(known if 0 < len(known) < len(events) else list(webhook.OLD_EVENTS))
            else:
                self.state.events = events if len(candidates) > 1 else []
                break
        info = await self._get_session()
        shown, _ = webhook.split(mapping(info.get("config")), {url})
        self.state.urls = [url]
        self.state.wanted = webhook.fingerprint(wanted)
        self.state.shown = webhook.fingerprint(shown[0]) if shown else _UNSEEN
        await self._save()
        return info

    async def remove_webhook(self) -> None:
        """Take hookgw's webhook out of the session's configuration."""
        self._is_ending = True  # or the next look would set it again
        async with self._changing:
            try:
                info = await self._get_session()
            except Refused as error:
                if error.http_status == 404:
                    return
                raise
            config = mapping(info.get("config"))
            ours, others = webhook.split(config, {self.session.ingest_url or "", *self.state.urls})
            if ours:
                body = {"config": {**config, "webhooks": others}}
                await self.client.call("PUT", "sessions", self.options.session, body=body)

    async def log_out(self) -> None:
        """Log the account out of WhatsApp, and leave the session stopped and without a webhook."""
        self._is_ending = True
        path = ("sessions", self.options.session)
        await self.client.call("POST", *path, "logout", body={})
        await self.client.call("POST", *path, "stop", body={})
        await self.remove_webhook()  # a stopped session is not started for this

    async def restart(self) -> None:
        """Restart the session."""
        await self.client.call("POST", "sessions", self.options.session, "restart", body={})

    async def _show_code(self) -> None:
        path = (self.options.session, "auth", "qr")
        try:
            code = text(mapping(await self.client.call("GET", *path, query={"format": "raw"})).get("value"))
            if not code or code == self._code:
                return
            picture = mapping(await self.client.call("GET", *path, query={"format": "image"}))
        except Refused as error:
            if error.http_status not in (404, 422):
                raise
            return  # the code was scanned in this moment, or there is none yet
        base64 = f"data:{text(picture.get('mimetype')) or 'image/png'};base64,{text(picture.get('data'))}"
        self._code = code
        await self.session.show_qr_code(QRCode(code=code, base64=base64))

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
        return path_of(reference_of(text(mapping(mapping(message).get("media")).get("url"))))

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
                raise NetworkRefused(f"Nobody on WhatsApp has the number {number}.", status=400)
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

    async def set_presence(self, presence: str, chat: str = "") -> None:
        """Show a presence of WAHA, in a chat or of the account as a whole."""
        body = {"presence": presence, **({"chatId": chat} if chat else {})}
        await self.client.call("POST", self.options.session, "presence", body=body)

    async def stop_typing(self, chat: str, delay: float) -> None:
        """Show after a delay in seconds that the account no longer types."""
        await trio.sleep(delay)
        body = {"session": self.options.session, "chatId": chat}
        await self.client.call("POST", "stopTyping", body=body)

    def ignores(self, event: NewEvent) -> bool:
        """Return whether the account's settings leave an event out."""
        if not self.settings.groups_ignore or not isinstance(event.data, dict):
            return False
        chat = mapping(event.data.get("key")).get("remoteJid") or event.data.get("remoteJid")
        return is_group(text(chat))

    def follow_settings(self, settings: InstanceSettings) -> None:
        """Use other settings of the account."""
        if settings.always_online != self.settings.always_online and self._is_open:
            self.in_background(self.set_presence, "online" if settings.always_online else "offline")
        self.settings = settings

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

    def in_background(self, call: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> None:
        """Make a call that nobody waits for; a refusal is only logged."""

        async def run() -> None:
            try:
                await call(*args, **named)
            except NetworkRefused as error:
                logger.warning("WAHA refused", instance=self.session.instance, reason=str(error))

        self.nursery.start_soon(run)

    async def _save(self) -> None:
        await self.session.save_state(msgspec.to_builtins(self.state))


def chat_id_or_empty(jid: str) -> str:
    """Return WAHA's id of a chat of events; empty if there is none."""
    user, _, server = jid.partition("@")
    return f"{user}@c.us" if server == "s.whatsapp.net" else jid if server else ""


def now() -> float:
    """Return the time in seconds since the epoch."""
    return time.time()
