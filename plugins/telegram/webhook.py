"""Receives updates that Telegram posts to ingestUrl: keeps the webhook set, and reads the requests.

Telegram posts an update again and again, for up to 24 hours, until the answer is a 2xx, and holds the later
updates of the same chat back meanwhile. With one connection, updates arrive one after the other.
"""

from __future__ import annotations

from http import HTTPStatus

import structlog
import trio

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    Invalid,
    NetworkRefused,
    NotSupported,
    ProofRefused,
)
from hookgw.connectors import is_secret, mapping, number, pause_after, text

from .client import Refused
from .connection import Connection
from .events import ALLOWED_UPDATES

logger = structlog.get_logger("hookgw.telegram")

CHECK = 60.0
"""Seconds between two checks whether the webhook is still set."""
FILE_TIME = 4.0
"""Seconds for a file that goes into its event: an answer may take 10 s in all."""
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 (no secret)
_FIGHT = 300.0
_TAKEN = (
    "Another program keeps changing this bot's webhook, so updates may go there. Stop the other program, or "
    "give each a bot of its own. hookgw sets its webhook again every minute."
)


class WebhookKeeper:
    """Sets the webhook of one bot, and sets it again if somebody changes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        self._client = connection.client
        self._set_again_at: float | None = None
        self._seen_error = 0
        # What the server says it sends, since the webhook was set.
        self._allowed: frozenset[str] | None = None

    async def run(self) -> None:
        """Keep the webhook until cancelled.

        Raises:
            TokenRefused: the server does not accept the token.
        """
        failures, name, is_open = 0, "", False
        while True:
            try:
                if not name:
                    name = await self._connection.profile_name()
                    await self._set()
                is_taken = await self._check()
            except NetworkRefused as error:
                if isinstance(error, Refused) and error.is_unauthorized:
                    await self._connection.check_refusal(error, was_open=is_open)
                    continue
                failures += 1
                was_open = bool(name)
                if isinstance(error, Refused) and not error.is_temporary:
                    # Telegram does not like the URL. That may pass: its name may be new.
                    name, is_open, was_open = "", False, True
                    reason = f"Telegram refuses the webhook: {error}"
                    await self._session.set_state(ConnectionState.CLOSE, error.error_code, message=reason)
                what = "webhook not checked"
                is_open = await pause_after(
                    self._session, error, failures, what, logger, is_open=is_open, was_open=was_open
                )
                continue
            failures = 0
            if is_taken:
                is_open = False
                await self._session.set_state(ConnectionState.CLOSE, HTTPStatus.CONFLICT, message=_TAKEN)
            elif not is_open:
                is_open = True
                await self._session.set_state(
                    ConnectionState.OPEN, wuid=self._connection.options.bot, profileName=name
                )
            await trio.sleep(CHECK)

    async def _set(self) -> None:
        self._allowed = None
        async with self._connection.changing_webhook:
            if not self._connection.is_leaving:  # the gateway is about to end this run
                await self._client.call(
                    "setWebhook",
                    url=self._session.ingest_url,
                    secret_token=await self._connection.webhook_secret(),
                    # One after the other: with more, later updates overtake earlier ones.
                    max_connections=1,
                    allowed_updates=ALLOWED_UPDATES,
                )

    async def _check(self) -> bool:
        """Set the webhook again if it is not as it was set. Return whether that happens repeatedly."""
        info = mapping(await self._client.get("getWebhookInfo"))
        failed_at = number(info.get("last_error_date")) or 0
        if failed_at > self._seen_error:
            if self._seen_error or number(info.get("pending_update_count")):
                logger.warning(
                    "Telegram cannot deliver",
                    instance=self._session.instance,
                    reason=self._client.hide(text(info.get("last_error_message"))),
                    pending=number(info.get("pending_update_count")),
                )
            self._seen_error = failed_at
        found = info.get("allowed_updates")
        allowed = frozenset(map(str, found)) if isinstance(found, list) else frozenset()
        is_set = text(info.get("url")) == self._session.ingest_url and info.get("max_connections", 1) == 1
        if is_set and self._allowed is None:
            # A local server that is older than a kind of updates leaves it out.
            self._allowed = allowed
        if (is_set and allowed == self._allowed) or self._connection.is_leaving:
            return False
        now = trio.current_time()
        is_repeated = self._set_again_at is not None and now - self._set_again_at < _FIGHT
        self._set_again_at = now
        logger.warning("webhook set again", instance=self._session.instance)
        await self._set()
        return is_repeated


async def receive(connection: Connection, request: IngestRequest) -> IngestResponse:
    """Store the events of an update that Telegram posts.

    Raises:
        ProofRefused: the request does not prove that Telegram sent it.
        Invalid: it was damaged on its way; Telegram sends it again.
        EventLeftOut: it is too large to be read.
    """
    if not is_secret(request.headers.get(SECRET_HEADER, ""), connection.state.secret):
        raise ProofRefused.of("telegram.proof", "X-Telegram-Bot-Api-Secret-Token is missing or wrong.")
    if request.method != "POST":
        raise NotSupported.of("telegram.post_only", "Telegram posts its updates.")
    async with connection.receiving:
        await _store(connection, request.body)
    return IngestResponse()


async def _store(connection: Connection, body: bytes) -> None:
    try:
        update = await connection.session.decode_json(body, events=("",))
    except ValueError:
        raise Invalid.of("telegram.body", "The body is not JSON.") from None
    if not (update_id := number(mapping(update).get("update_id"))):
        # A repetition would be the same, and hold back the later updates of a chat for a day.
        logger.warning("request without an update", instance=connection.session.instance, size=len(body))
        return
    await connection.store([update], raw=lambda: {update_id: body}, file_time=FILE_TIME)
