"""The sessions of browsers begin with a key or a link, and end by logout, disuse or the end of the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from hookgw.auth.keyring import KeyHolder, Keyring
from hookgw.concurrency.clock import Clock
from hookgw.core.shielded import completes
from hookgw.kernel.errors import Unauthorized
from hookgw.records.browser_sessions import BrowserSession, new_link_token, new_token, session_id
from hookgw.store import Records

MOST_SESSIONS = 100
"""The most sessions of one key, and of one person with it. A further session ends the one that was unused
longest."""
LINK_LIFETIME = 300.0
"""Seconds for which a link can log in."""
MOST_LINKS = 16
NOTE_USE_EVERY = 600.0
"""Seconds between two writes of a session's last use."""


class SignedIn(NamedTuple):
    """A session in use, with the holder of its key."""

    session: BrowserSession
    holder: KeyHolder


class BrowserSessions:
    """The sessions of browsers, and the links that begin them.

    A session is found by a token that only the browser has. It ends with its key: when the key is revoked or
    expires, the session is no longer valid.
    """

    def __init__(self, store: Records, keyring: Keyring, clock: Clock) -> None:
        self._store = store
        self._keyring = keyring
        self._clock = clock
        self._sessions: dict[str, BrowserSession] = {}
        # In memory only: a link opens the process that printed it.
        self._links: dict[str, tuple[Callable[[], KeyHolder | None], float]] = {}

    @property
    def installation(self) -> str:
        """The short id of the installation, part of its cookies' names."""
        return self._keyring.installation

    async def load(self) -> None:
        """Read the stored sessions, and remove the ended ones."""
        found = await self._store.load_sessions()
        ended = [one.id for one in found.values() if self._has_ended(one)]
        if ended:
            await self._store.remove_sessions(ended)
        self._sessions = {one.id: one for one in found.values() if one.id not in ended}

    def ids(self) -> list[str]:
        return list(self._sessions)

    def apply(self, sessions: Mapping[str, BrowserSession | None]) -> None:
        """Take over sessions that another node has stored; ``None`` for a removed session."""
        for name, session in sessions.items():
            if session is None:
                self._sessions.pop(name, None)
            else:
                self._sessions[name] = session

    @completes
    async def begin(
        self, holder: KeyHolder, *, instead_of: str = "", person: str = "", is_of_user: bool = False
    ) -> str:
        """Begin a session for the holder of a key, and return its token, which is not stored.

        Args:
            person, is_of_user: see :class:`BrowserSession`.
            instead_of: the token of the session that loses its cookie to the new one. That session ends: it
                is out of use, but its streams would take the browser's few connections.

        Raises:
            StorageUnavailable: the disk refuses.
        """
        token, now = new_token(), self._clock.wall()
        begun = BrowserSession(
            id=session_id(token),
            key_hash=holder.key.hash,
            created_at=now,
            used_at=now,
            person=person,
            is_of_user=is_of_user,
        )
        ended = [one.id for one in self._sessions.values() if self._has_ended(one)]
        same_key = sorted(
            (
                one
                for one in self._sessions.values()
                if (one.key_hash, one.person) == (holder.key.hash, person) and one.id not in ended
            ),
            key=lambda one: one.used_at,
        )
        ended += [one.id for one in same_key[: max(0, len(same_key) - MOST_SESSIONS + 1)]]
        replaced = session_id(instead_of)
        if replaced in self._sessions and replaced not in ended:
            ended.append(replaced)
        # On disk before the browser gets its cookie, so that the session survives a restart.
        await self._store.put_session(begun)
        if ended:
            await self._store.remove_sessions(ended)
        for session in ended:
            self._sessions.pop(session, None)
        self._sessions[begun.id] = begun
        return token

    async def find(self, token: str) -> SignedIn:
        """Return the session of a token, and note its use.

        Raises:
            Unauthorized: the session does not exist, was unused for too long, or has a key that is no longer
                valid.
            StorageUnavailable: the disk refuses.
        """
        session = self._sessions.get(session_id(token))
        holder = None if session is None else self._keyring.holder_of(session.key_hash)
        if session is None or holder is None or session.has_ended(self._clock.wall()):
            raise Unauthorized("Your session has ended. Log in again.")
        now = self._clock.wall()
        if now - session.used_at >= NOTE_USE_EVERY:
            session = msgspec.structs.replace(session, used_at=now)
            # In memory first: requests that arrive meanwhile must not write it as well.
            self._sessions[session.id] = session
            await self._store.put_session(session)
        return SignedIn(session, holder)

    def is_valid(self, signed_in: SignedIn) -> bool:
        """Return whether a session found earlier still lasts, for streams that outlast a request."""
        session = self._sessions.get(signed_in.session.id)
        return session is not None and not self._has_ended(session)

    @completes
    async def end(self, session: BrowserSession) -> None:
        """End a session: its token is refused from now on.

        Raises:
            StorageUnavailable: the disk refuses; the session has ended until the next restart.
        """
        self._sessions.pop(session.id, None)
        await self._store.remove_sessions([session.id])

    def _has_ended(self, session: BrowserSession) -> bool:
        return session.has_ended(self._clock.wall()) or self._keyring.holder_of(session.key_hash) is None

    def issue_link(self, holder: Callable[[], KeyHolder | None]) -> str:
        """Return a token that begins one session, within :data:`LINK_LIFETIME`.

        ``holder`` is called when the token is used, and returns the holder of the key that it signs in.
        """
        now = self._clock.steady()
        self._links = {token: link for token, link in self._links.items() if link[1] > now}
        while len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        token = new_link_token()
        # By its hash, as sessions are: the time of the lookup reveals nothing about the token.
        self._links[session_id(token)] = (holder, now + LINK_LIFETIME)
        return token

    def use_link(self, token: str) -> KeyHolder:
        """Use a link up. Return the holder that it signs in; begin a session for it.

        Raises:
            Unauthorized: the link is unknown, was used, or has expired.
        """
        found = self._links.pop(session_id(token), None)
        holder = None if found is None or found[1] <= self._clock.steady() else found[0]()
        if holder is None:
            raise Unauthorized("This link has been used or has expired. Log in with a key.")
        return holder
