"""Presences: who is online, writing or recording."""

from __future__ import annotations

from contextlib import suppress

import trio

from hookgw import Invalid, Session

_ENDS = {"available": "unavailable", "composing": "paused", "recording": "paused"}


async def show_presence(session: Session, account: str, chat: str, presence: str, delay: float) -> None:
    """Emit a presence of the account and, after a delay in seconds, its end."""
    await _emit(session, account, chat, presence)
    if delay and presence in _ENDS:
        await trio.sleep(delay)
        await _emit(session, account, chat, _ENDS[presence])


async def _emit(session: Session, account: str, chat: str, presence: str) -> None:
    presences = {account: {"lastKnownPresence": presence}}
    # The plugin gateway_kinds adds this kind, and may be disabled.
    with suppress(Invalid):
        await session.emit("PRESENCE_UPDATE", {"id": chat, "presences": presences})
