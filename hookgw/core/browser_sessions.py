"""The sessions of browsers begin with a key or a link, and end by logout, disuse or the end of the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookgw.auth.keyring import KeyHolder, Keyring
from hookgw.concurrency.clock import Clock
from hookgw.core.shielded import completes
from hookgw.kernel.errors import TooManyRequests, Unauthorized
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Key, Principal, Rights
from hookgw.records.audit import AuditEntry
from hookgw.records.browser_sessions import (
    BrowserSession,
    Portal,
    new_link_token,
    new_token,
    session_id,
)
from hookgw.store import Records

MOST_SESSIONS = 100
"""The most sessions of one key; and of one person with it, and of one customer's portal links. A further
session ends the one that was unused longest."""
MOST_PORTAL_LINKS = 1000
"""The most unopened portal links of a key, together with those of the keys that count as it."""
MOST_PORTAL_SESSIONS = 10_000
"""The most sessions of portal links, counted for a key together with the keys that count as it, likewise."""
LINK_LIFETIME = 300.0
"""Seconds for which a link can log in."""
MOST_LINKS = 16
NOTE_USE_EVERY = 600.0
"""Seconds between two writes of a session's last use."""


_ENDED = Sentence("session.ended", "Your session has ended. Log in again.")


class SignedIn(NamedTuple):
    """A session in use, with the holder of its key, or what its portal link gives of that."""

    session: BrowserSession
    holder: KeyHolder


class BrowserSessions:
    """The sessions of browsers, and the links that begin them.

    A session is found by a token that only the browser has. It ends with its key: when the key is revoked or
    expires, the session is no longer valid, even if a later key has the same value. That of a portal link
    also ends when the key can do less than the link gives.
    """

    def __init__(self, store: Records, keyring: Keyring, clock: Clock) -> None:
        self._store = store
        self._keyring = keyring
        self._clock = clock
        self._sessions: dict[str, BrowserSession] = {}
        self._guests: dict[str, tuple[KeyHolder, KeyHolder | None]] = {}
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
                self._forget(name)
            else:
                self._sessions[name] = session

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
        await self.put(begun, instead_of=[session_id(instead_of)])
        return token

    @completes
    async def put(
        self, begun: BrowserSession, *, instead_of: Sequence[str] = (), audit: Sequence[AuditEntry] = ()
    ) -> None:
        """Store a session or a link, and remove those that have ended, and ``instead_of``, by their ids.

        Raises:
            TooManyRequests: too many links of the key wait to be opened.
            StorageUnavailable: the disk refuses.
        """
        holder = self._keyring.holder_of(begun.key_hash)
        if holder is not None and begun.created_at < holder.key.created_at:
            # The clock was set back since, or another node's is ahead.
            begun = msgspec.structs.replace(begun, created_at=holder.key.created_at)
        ended = {one.id for one in self._sessions.values() if self._has_ended(one)}
        ended.update(one for one in instead_of if one in self._sessions)
        if not begun.is_link:
            others = [one for one in self._sessions.values() if not one.is_link and one.id not in ended]
            group = begun.group
            ended.update(_too_many([one for one in others if one.group == group], MOST_SESSIONS))
            if begun.portal is not None:
                guests = [one for one in others if one.portal is not None and one.id not in ended]
                ended.update(
                    _too_many([one for one in guests if self._is_of(one, holder)], MOST_PORTAL_SESSIONS)
                )
        elif self._links_of(holder) >= MOST_PORTAL_LINKS:
            raise TooManyRequests.of(
                "portal.too_many_links",
                "{most:,} links of this key wait to be opened, the maximum. Retry later.",
                most=MOST_PORTAL_LINKS,
                retry_after=60,
            )
        # In memory first: calls that arrive meanwhile must count it. Nobody has its token yet.
        self._sessions[begun.id] = begun
        try:
            # On disk before the browser gets its cookie, so that the session survives a restart.
            await self._store.put_session(begun, ended=ended, audit=audit)
        except BaseException:
            self._forget(begun.id)
            raise
        for session in ended:
            self._forget(session)

    async def find(self, token: str) -> SignedIn:
        """Return the session of a token, and note its use.

        Raises:
            Unauthorized: the session does not exist, was unused for too long, or has a key that is no longer
                valid.
            StorageUnavailable: the disk refuses.
        """
        session = self._sessions.get(session_id(token))
        holder = None if session is None or session.is_link else self._holder_of(session)
        if session is None or holder is None or session.has_ended(self._clock.wall()):
            raise Unauthorized(_ENDED)
        now = self._clock.wall()
        if now - session.used_at >= NOTE_USE_EVERY:
            session = msgspec.structs.replace(session, used_at=now)
            # In memory first: requests that arrive meanwhile must not write it as well.
            self._sessions[session.id] = session
            await self._store.put_session(session, is_new=False)
        return SignedIn(session, holder)

    def find_link(self, token: str) -> BrowserSession | None:
        """Return the portal link with a token, if it can be opened."""
        link = self._sessions.get(session_id(token))
        return link if link is not None and link.is_link and not self._has_ended(link) else None

    def _links_of(self, maker: KeyHolder | None) -> int:
        """Return how many unopened portal links there are of a key, and of the keys that count as it."""
        links = (one for one in self._sessions.values() if one.is_link and self._is_of(one, maker))
        return sum(not self._has_ended(one) for one in links)

    def _is_of(self, session: BrowserSession, holder: KeyHolder | None) -> bool:
        """Return whether a session's key, which is valid, counts as that of a holder."""
        found = self._keyring.holder_of(session.key_hash)
        if found is None or holder is None:
            return False
        # Operators' keys, which nothing counts, are each on their own.
        return found is holder or (holder.counted_as is not None and found.counted_as == holder.counted_as)

    def check(self, signed_in: SignedIn) -> None:
        """Check again, after a wait, that a session lasts, and may do what it could.

        Raises:
            Unauthorized: it has ended, or its key has.
        """
        session = self._sessions.get(signed_in.session.id)
        if session is None or self._has_ended(session) or self._holder_of(session) is not signed_in.holder:
            raise Unauthorized(_ENDED)

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
        self._forget(session.id)
        await self._store.remove_sessions([session.id])

    def _forget(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._guests.pop(session, None)

    def _has_ended(self, session: BrowserSession) -> bool:
        return session.has_ended(self._clock.wall()) or self._holder_of(session) is None

    def _holder_of(self, session: BrowserSession) -> KeyHolder | None:
        holder = self._keyring.holder_of(session.key_hash)
        if holder is None or session.created_at < holder.key.created_at:
            return None
        if session.portal is None:
            return holder
        # Kept, for its bucket of requests; and made again if the key has changed.
        known = self._guests.get(session.id)
        if known is None or known[0] is not holder:
            known = self._guests[session.id] = holder, self._guest(session, session.portal, holder)
        return known[1]

    def _guest(self, session: BrowserSession, portal: Portal, maker: KeyHolder) -> KeyHolder | None:
        principal = Principal(maker.principal.instance, portal.reach, Rights.of(portal.rights))
        if not maker.principal.covers(principal):
            return None  # the key can do less by now
        customer = f"portal {portal.group}"
        key = Key(
            name=maker.key.name,
            hash=session.id,
            created_at=session.created_at,
            expires_at=portal.ends_at,
            origin=customer,
            creator=customer if maker.principal.instance is None else maker.key.creator,
        )
        return self._keyring.make_holder(principal, key)

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
            raise Unauthorized.of(
                "session.link_used", "This link has been used or has expired. Log in with a key."
            )
        return holder


def _too_many(sessions: Sequence[BrowserSession], most: int) -> list[str]:
    """Return the ids of sessions that must end for another one to begin: those that were unused longest."""
    oldest = sorted(sessions, key=lambda one: one.used_at)
    return [one.id for one in oldest[: max(0, len(oldest) - most + 1)]]
