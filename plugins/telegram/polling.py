"""Receives updates by asking for them: one long poll after another.

A poll with an offset tells Telegram to forget the updates before it. So an offset is stored in one commit
with the events of the updates that it stands behind, and sent to Telegram with the next poll, after the
commit. A kill at any moment repeats at most updates whose events have known ids, and loses none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Generator
from functools import partial
from http import HTTPStatus
from typing import Any

import structlog
import trio

from hookgw import ConnectionState, NetworkRefused
from hookgw.connectors import (
    NetworkEvents,
    Unreachable,
    mapping,
    number,
    pause_after,
    raw_at,
    raw_items,
    text,
)

from .client import Refused, Unreadable
from .connection import Connection
from .events import ALLOWED_UPDATES

logger = structlog.get_logger("hookgw.telegram")

POLL = 30
"""Seconds that Telegram may wait for news."""
POLL_IN_CONFLICT = 5
"""The same, while another program takes updates, too: the end of the conflict must be noticed soon."""
PAGE = 100
"""Updates in one answer; Telegram gives no more."""
CONFLICT_OVER = 12.0
"""Seconds without a conflict after which the other program counts as gone. Programs in a conflict ask again
every few seconds."""
FILE_TIME = 15.0
"""Seconds for the files in one answer that go into their events. Later updates wait for them."""
_PATIENCE = 20.0
"""Seconds beyond the poll that an answer may take."""
_LONGEST_CONFLICT_WAIT = 4.0
_WEBHOOK_FIGHT = 300.0
"""Seconds within which a second webhook that somebody sets means a program that keeps setting it."""
_TRIES_OF_ONE = 6
_SHORTEST_POLL = 1.0
_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*([0-9]{1,15})')

_TWO_POLLERS = (
    "Another program asks Telegram for this bot's updates (409): each update reaches only one of the two. "
    "Stop the other program, or give each a bot of its own. hookgw keeps trying, and opens once it is alone."
)
_OTHER_WEBHOOK = (
    "Another program keeps setting a webhook for this bot (409), which takes the updates away. Stop the "
    "other program. hookgw keeps deleting the webhook, and opens once it is alone."
)


class Poller:
    """Receives the updates of one bot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session
        self._client = connection.client
        self._name = ""
        self._is_open = self._was_open = False
        self._limit = PAGE
        self._unreadable = 0
        self._conflicts = 0
        self._alone_at = 0.0
        self._webhook_deleted_at: float | None = None

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            TokenRefused: the server does not accept the token.
        """
        failures = 0
        while True:
            try:
                if not self._name:
                    self._name = await self._connection.profile_name()
                    await self._delete_webhook("polling starts")
                await self._poll(wait=self._is_open and failures == 0)
            except Refused as error:
                if error.is_unauthorized:
                    await self._connection.check_refusal(error, was_open=self._was_open)
                    continue
                if error.error_code == HTTPStatus.CONFLICT:
                    await self._resolve_conflict(error)
                    continue
                failures += 1
                await self._wait(error, failures)
            except Unreachable as error:
                failures += 1
                if isinstance(error, Unreadable) and error.body and self._limit == 1:
                    await self._skip_unreadable(error.body)
                # It may have been too large, or too slow.
                self._limit = max(1, self._limit // 2)
                await self._wait(error, failures)
            else:
                failures, self._limit, self._unreadable = 0, PAGE, 0
                if not self._is_open and trio.current_time() >= self._alone_at:
                    self._conflicts = 0
                    self._is_open = self._was_open = True
                    await self._session.set_state(
                        ConnectionState.OPEN, wuid=self._connection.options.bot, profileName=self._name
                    )

    async def _poll(self, *, wait: bool) -> None:
        in_conflict = self._conflicts > 0
        seconds = POLL_IN_CONFLICT if in_conflict else POLL if wait else 0
        offset, began = self._connection.state.offset, trio.current_time()
        skipped: list[int] = []

        def skip(update: bytes) -> None:
            if found := _UPDATE_ID.search(update):
                skipped.append(int(found[1]))

        answer, body = await self._client.updates(
            skip,
            seconds=seconds + _PATIENCE,
            offset=offset or None,
            limit=self._limit,
            timeout=seconds,
            # Each time: another program may have asked for others.
            allowed_updates=ALLOWED_UPDATES,
        )
        if not isinstance(answer, NetworkEvents):
            raise Unreachable("The Bot API server did not answer with a list of updates.")
        updates = await self._session.in_turns(_with_id(answer))
        if not updates and not skipped:
            if answer:
                logger.warning("updates without an id", instance=self._session.instance)
            if answer or seconds:
                # Something between hookgw and Telegram may answer at once, and for ever with the same.
                await trio.sleep(max(0.0, began + _SHORTEST_POLL - trio.current_time()))
            return
        # Not the largest id so far: after a week without updates, Telegram goes on with any number.
        last = max([*skipped, *(number(update.get("update_id")) or 0 for update in updates)])
        updates.sort(key=lambda update: number(update.get("update_id")) or 0)
        raw = partial(_raw_updates, body)
        await self._connection.store(updates, raw=raw, offset=last + 1, file_time=FILE_TIME)

    async def _resolve_conflict(self, error: Refused) -> None:
        """Report a conflict, remove its cause if it is a webhook, and wait a moment."""
        now = trio.current_time()
        reason = _TWO_POLLERS
        if "webhook" in str(error).lower():
            fights = self._webhook_deleted_at is not None and now - self._webhook_deleted_at < _WEBHOOK_FIGHT
            try:
                await self._delete_webhook(str(error))
            except NetworkRefused as failure:
                await self._wait(failure, 1)
                return
            self._webhook_deleted_at = now
            if not fights:
                return
            reason = _OTHER_WEBHOOK
        self._conflicts += 1
        self._alone_at = now + CONFLICT_OVER
        self._is_open = False
        await self._session.set_state(ConnectionState.CLOSE, HTTPStatus.CONFLICT, message=reason)
        logger.warning("conflict", instance=self._session.instance, reason=str(error), count=self._conflicts)
        # Each of the two ends the other's poll. Less often than that takes too long to notice the end.
        await trio.sleep(min(_LONGEST_CONFLICT_WAIT, self._conflicts) * random.uniform(0.8, 1.2))  # noqa: S311 (no secret)

    async def _delete_webhook(self, reason: str) -> None:
        """Delete the bot's webhook, if it has one: with one, Telegram answers no polls."""
        info = mapping(await self._client.get("getWebhookInfo"))
        if not text(info.get("url")):
            return
        logger.warning("webhook deleted", instance=self._session.instance, reason=reason)
        await self._client.call("deleteWebhook")

    async def _skip_unreadable(self, body: bytes) -> None:
        """Leave an update out that cannot be read again and again, although other answers can."""
        self._unreadable += 1
        if self._unreadable < _TRIES_OF_ONE:
            return
        try:
            await self._connection.profile_name()
        except NetworkRefused:
            return  # nothing can be read now
        found = _UPDATE_ID.search(body)
        state = self._connection.state
        offset = int(found[1]) + 1 if found else state.offset + 1 if state.offset else None
        if offset is None:
            return
        logger.error("unreadable update skipped", instance=self._session.instance, offset=offset)
        await self._connection.store([], raw=dict, offset=offset, file_time=0)
        self._unreadable = 0

    async def _wait(self, error: NetworkRefused, failures: int) -> None:
        what, was_open = "polling failed", self._was_open
        self._is_open = await pause_after(
            self._session, error, failures, what, logger, is_open=self._is_open, was_open=was_open
        )


def _raw_updates(body: bytes) -> dict[int, bytes]:
    """Return the updates in an answer as the server wrote them, by their ids."""
    raws = raw_items(raw_at(body, "result"))
    return {number(raw_at(raw, "update_id").decode()) or 0: raw for raw in raws}


def _with_id(found: NetworkEvents) -> Generator[None, None, list[dict[str, Any]]]:
    updates = []
    for update in found:
        if isinstance(update, dict) and number(update.get("update_id")):
            updates.append(update)
        yield
    return updates
