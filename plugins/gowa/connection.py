"""One device of a GOWA server: its webhook, its state, and its code."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
import trio

from hookgw import ConnectionState, NewEvent, QRCode, Session
from hookgw.connectors import (
    StatusReason,
    Unreachable,
    WatchedConnection,
    found_at,
    mapping,
    number,
    read_file,
    repr_without,
    save_state,
    text,
)

from .client import Client, Refused
from .events import is_group, jid_of
from .options import Options

logger = structlog.get_logger("hookgw.gowa")

CHECK_EVERY = 30.0
"""Seconds between two looks at a device that works: GOWA does not report its state."""
_CONNECTING_EVERY, _RECONNECTING = 3.0, 5.0
MOST_CODES = 5
"""Codes that are shown before somebody has to connect again. GOWA shows a new one only if it is asked."""
_USUAL_DURATION, _LEAST_SHOWN = 30, 15.0
_PAIRING_TIME = 150.0
"""Seconds for which a code to type is shown: another QR code would end it. WhatsApp takes it for some three
minutes."""
_LARGEST_PICTURE = 2**20
_LOGGED_IN = ("ALREADY_LOGGED_IN", "SESSION_SAVED_ERROR")


class State(msgspec.Struct, kw_only=True):
    """What survives a restart.

    Attributes:
        secret: signs the webhooks of the device; made up once.
    """

    secret: str = ""

    __repr__ = repr_without("secret")


class Connection(WatchedConnection):
    """A device of a GOWA server."""

    network = "GOWA"

    def __init__(self, session: Session, options: Options, state: State, nursery: trio.Nursery) -> None:
        super().__init__(session, nursery)
        self.options = options
        self.state = state
        self.client = Client(session, options, state.secret)
        self._changing = trio.Lock()
        self._is_ending = self._was_open = False
        self._codes = 0
        self._code_until = float("-inf")

    async def run(self) -> None:
        """Keep the webhook set, and the state known, until cancelled."""
        if not self.state.secret:
            self.state.secret = secrets.token_urlsafe(32)
            await save_state(self.session, self.state)
        self.client.secrets.add(self.state.secret)
        await self.watch()

    async def call(self, method: str, *path: str, **more: Any) -> dict[str, Any]:
        """Make a request, as :meth:`.Client.call`. A refusal after a logout wakes the connection."""
        try:
            return await self.client.call(method, *path, **more)
        except Refused as error:
            if error.is_logged_out:  # the state follows at once
                self.wake()
            raise

    async def look(self) -> float:
        """Compare the device with what it should be, and change it; return the seconds to the next look."""
        async with self._changing:
            if self._is_ending:
                return CHECK_EVERY
            await self._keep_webhook()
        status = await self.client.of_device("GET", "status")
        if status.get("is_logged_in") is True and status.get("is_connected") is True:
            await self._opened()
            return CHECK_EVERY
        info = await self.client.of_device("GET")
        if text(info.get("jid")):
            return await self._reconnect()
        if self._was_open:
            words = (
                "The account was logged out, on the phone or on the GOWA server. Connect the instance again."
            )
            await self.close(StatusReason.LOGGED_OUT, words)
            return CHECK_EVERY
        return await self._show_code()

    async def _keep_webhook(self) -> None:
        url = self.session.ingest_url or ""
        wanted = {"webhook_url": url, "webhook_secret": self.state.secret, "webhook_events": ""}
        try:
            found = await self.client.of_device("GET", "webhook")
        except Refused as error:
            if error.remote_status == 404 and not error.word:
                words = "This GOWA server has no webhooks of devices: update it to version 9 or later"
                raise Unreachable(f"{words}, or correct base_url.") from error
            if not error.is_missing:
                raise
            body = {"device_id": self.options.device, **wanted}
            await self.client.call("POST", "devices", body=body)
            return
        if {name: text(found.get(name)) for name in wanted} != wanted:
            if text(found.get("webhook_url")) not in ("", url):
                logger.warning("webhook of another receiver replaced", instance=self.session.instance)
            await self.client.of_device("PATCH", "webhook", body=wanted)

    async def _opened(self) -> None:
        self._codes, self._code_until = 0, float("-inf")
        info = {} if self.is_open else await self.client.of_device("GET")
        await self.report_open(wuid=jid_of(info.get("jid")), profileName=text(info.get("display_name")))
        self._was_open = True

    async def _reconnect(self) -> float:
        """Wait for an account that is logged in and not connected; GOWA tries it again, too."""
        if self._was_open:
            words = "The account has lost its connection to WhatsApp. GOWA tries again."
            await self.close(StatusReason.CONNECTION_CLOSED, words)
        else:
            await self.session.set_state(ConnectionState.CONNECTING)
        await self.restart()
        return _RECONNECTING

    async def _show_code(self) -> float:
        if trio.current_time() < self._code_until:
            return _CONNECTING_EVERY
        if self._codes >= MOST_CODES:
            words = "Nobody scanned the QR code. Connect the instance again."
            await self.close(StatusReason.LOGGED_OUT, words)
            return CHECK_EVERY
        await self.session.set_state(ConnectionState.CONNECTING)
        try:
            login = await self.client.of_device("GET", "login")
        except Refused as error:
            if error.word in _LOGGED_IN:
                return _CONNECTING_EVERY
            if error.is_logged_out:  # so it says, too, if it does not reach WhatsApp
                raise Unreachable("The GOWA server cannot connect to WhatsApp.") from error
            raise
        from .qr_picture import read_qr_code  # segno, which no start should load

        async with self.client.download(text(login.get("qr_link"))) as response:
            picture = await read_file(response, _LARGEST_PICTURE)
        try:
            code = read_qr_code(picture)
        except ValueError as error:
            raise Unreachable(f"The GOWA server shows a code, but {error}.") from None
        self._codes += 1
        # The picture is there for half of the time for which WhatsApp takes the code.
        shown = 2.0 * (number(login.get("qr_duration")) or _USUAL_DURATION) - 5
        # GOWA asks WhatsApp for a code to type on the connection that has brought the other one.
        pairing_code = await self._pairing_code_of(self.session.pairing_number or self.options.number)
        shown = _PAIRING_TIME if pairing_code else max(shown, _LEAST_SHOWN)
        self._code_until = trio.current_time() + shown
        base64_ = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        await self.session.show_qr_code(QRCode(code=code, base64=base64_, pairing_code=pairing_code))
        return _CONNECTING_EVERY

    async def _pairing_code_of(self, phone: str) -> str | None:
        """Return a code to type on the phone with a number; ``None`` for no number, or if GOWA makes none."""
        if not phone:
            return None
        try:
            answer = await self.client.of_device("POST", "login", "code", query={"phone": phone})
        except Refused as error:
            logger.warning("no pairing code", instance=self.session.instance, reason=str(error))
            return None
        return text(answer.get("pair_code")) or None

    async def restart(self) -> None:
        """Connect the account to WhatsApp again."""
        try:
            await self.client.of_device("POST", "reconnect")
        except Refused as error:
            if error.remote_status < 500:
                raise
            # Without a login there is nothing to connect: the next look shows a code.
            logger.info("not reconnected", instance=self.session.instance, reason=str(error))

    async def remove_webhook(self) -> None:
        """Take hookgw's webhook out of the device."""
        self._is_ending = True  # or the next look would set it again
        async with self._changing:
            body = {"webhook_url": "", "webhook_secret": "", "webhook_events": ""}
            await self.client.of_device("PATCH", "webhook", body=body)

    async def log_out(self) -> None:
        """Log the account out of WhatsApp; the device stays, without a webhook."""
        self._is_ending = True
        await self.client.of_device("POST", "logout")
        await self.remove_webhook()

    async def show_online(self, is_online: bool) -> None:
        body = {"type": "available" if is_online else "unavailable"}
        await self.call("POST", "send", "presence", body=body)

    def ignores(self, event: NewEvent, envelope: Mapping[str, Any]) -> bool:
        """Return whether the account's settings leave an event of a report out."""
        data = mapping(event.data)
        chat = text(mapping(data.get("key")).get("remoteJid")) or text(data.get("remoteJid"))
        if event.data is None:
            chat = jid_of(found_at(envelope, "payload", "chat_id"))
        return self.settings.groups_ignore and is_group(chat)

    def answer_event(self, event: NewEvent) -> None:
        """Do what the account's settings want after an event."""
        if event.kind == "MESSAGES_UPSERT" and self.settings.read_messages:
            key = event.data["key"]
            # Posts of the status have a setting of their own, which GOWA has no call for.
            if not key["fromMe"] and key["remoteJid"] != "status@broadcast":
                self.in_background(
                    self.client.call, "POST", "message", key["id"], "read", body={"phone": key["remoteJid"]}
                )
        elif event.kind == "CALL" and self.settings.reject_call and event.data[0]["status"] == "offer":
            self.in_background(self._reject_call, event.data[0]["from"], event.data[0]["id"])

    async def _reject_call(self, caller: str, call: str) -> None:
        await self.client.call("POST", "call", "reject", body={"caller_jid": caller, "call_id": call})
        if words := self.settings.msg_call:
            await self.client.call("POST", "send", "message", body={"phone": caller, "message": words})
