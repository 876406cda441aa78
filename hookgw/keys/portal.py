"""Portal links: each opens the dashboard once, without a key, with a part of what a key may do.

A link is a stored session that nobody has begun. So it survives a restart, every node of a fleet knows it,
and it is used up in the commit that begins the session. Its token is behind the ``#`` of its URL: browsers
send that to no server, so neither logs nor the previews of chats have it. The page behind the URL sends the
token in a form, when its reader presses a button.
"""

from __future__ import annotations

import trio

from hookgw.auth.keyring import KeyHolder
from hookgw.core.audit import Audit, holder_as_actor
from hookgw.core.browser_sessions import BrowserSessions
from hookgw.core.open import Core
from hookgw.core.shielded import completes
from hookgw.kernel.errors import Forbidden, Unauthorized
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import rfc3339
from hookgw.keys.portal_fields import PortalRequest
from hookgw.keys.service import KeyService
from hookgw.records.api_keys import Rights
from hookgw.records.audit import AuditAction
from hookgw.records.browser_sessions import (
    BrowserSession,
    Portal,
    new_token,
    session_id,
    token_of_portal,
)

PORTAL_LIFETIME = 8 * 3600
"""Seconds after which the session of a link ends, however much it is used."""
REFUSED = Sentence(
    "portal.link_used",
    "This link has been used, or has expired. Ask whoever gave it to you for another one.",
)
"""The same for every link that cannot be opened."""

_NOT_LOOKED_UP = Sentence(
    "portal.not_looked_up",
    "This link is not known here, and the database cannot be asked for it now. Retry later.",
)


class PortalLinks:
    def __init__(self, core: Core, keys: KeyService) -> None:
        self._keys = keys
        self._sessions: BrowserSessions = core.sessions
        self._audit: Audit = core.audit
        self._keyring = core.keyring
        self._registry = core.registry
        self._clock = core.clock
        self._refresh = core.refresh
        self._lock = trio.Lock()

    async def make(self, maker: KeyHolder, asked: PortalRequest) -> tuple[str, float]:
        """Make a link. Return its token, which is not stored, and until when it can be opened.

        Raises:
            Forbidden: it would give a right that the key does not have.
            ForeignKey: it would show an instance out of the key's reach.
            NotFound: an instance does not exist.
            TooManyRequests: too many links of the key wait to be opened.
            Unauthorized: the key was revoked, or has expired, meanwhile.
            StorageUnavailable: the disk refuses.
        """
        self._keys.check_held(maker)
        rights = Rights.of(asked.rights)
        if not maker.principal.rights.covers(rights):
            missing = next(
                word for word in asked.rights if not maker.principal.rights.covers(Rights.of([word]))
            )
            raise Forbidden.of(
                "portal.right_missing",
                "This key does not have the right '{right}', so it cannot give it away.",
                right=missing,
            )
        if any(self._registry.find_instance(name) is None for name in asked.instances or ()):
            await self._refresh.catch_up()  # another node may have made it a moment ago
        reach = self._keys.reach_of(None, maker, asked.tags, asked.instances)
        assert reach is not None  # noqa: S101 -- the parser has seen to it that tags or instances are there
        now = self._clock.wall()
        ends_at = now + asked.lifetime
        if maker.key.expires_at is not None:
            ends_at = min(ends_at, maker.key.expires_at)
        token = new_token()
        portal = Portal(
            reach=reach,
            rights=rights.words,
            ends_at=ends_at,
            return_url=asked.return_url,
            opens=asked.opens,
            is_link=True,
        )
        link = BrowserSession(
            id=session_id(token), key_hash=maker.key.hash, created_at=now, used_at=now, portal=portal
        )
        given = " ".join(asked.instances or ()) or " ".join(f"{name}={tag}" for name, tag in reach.tags)
        own = maker.principal.instance
        entry = self._audit.entry(
            AuditAction.PORTAL_LINK,
            None if own is None else self._registry.find_instance(own),
            details={"reach": given[:512], "rights": " ".join(rights.words), "expiresAt": rfc3339(ends_at)},
        )
        await self._sessions.put(link, audit=[entry])
        return token, ends_at

    @completes
    async def open(
        self, token: str, *, browser: str, address: str | None = None, person: str = "", instead_of: str = ""
    ) -> str:
        """Use a link up, and return the token of the session that it begins.

        The browser that used it up gets the token again while the session lasts: the first response may not
        have arrived, as after a second click.

        Args:
            browser: a secret that this browser alone has.
            address: the client's IP address; ``None`` over a Unix socket.
            person, instead_of: see :meth:`BrowserSessions.begin`.

        Raises:
            Forbidden: no link has this token, or it was used or has expired, or its key has.
            Unavailable: the disk refuses, or the database cannot be asked; the link can be opened as before.
        """
        begun = token_of_portal(token, browser)
        if self._sessions.find_link(token) is None:
            # Another node may have made it a moment ago. Calls at once share one read.
            await self._refresh.look_up(_NOT_LOOKED_UP)
            if self._sessions.find_link(token) is None:
                return await self._again(begun)
        # Of two who open it at once, at any nodes, the second finds it used.
        async with self._lock, self._refresh.alone():
            link = self._sessions.find_link(token)
            maker = None if link is None else self._keyring.holder_of(link.key_hash)
            if link is None or link.portal is None or maker is None:
                return await self._again(begun)
            now = self._clock.wall()
            session = BrowserSession(
                id=session_id(begun),
                key_hash=link.key_hash,
                created_at=now,
                used_at=now,
                person=person,
                portal=Portal(
                    reach=link.portal.reach,
                    rights=link.portal.rights,
                    ends_at=now + PORTAL_LIFETIME,
                    return_url=link.portal.return_url,
                    opens=link.portal.opens,
                ),
            )
            own = maker.principal.instance
            entry = self._audit.entry(
                AuditAction.PORTAL_OPEN,
                None if own is None else self._registry.find_instance(own),
                actor=holder_as_actor(maker, address, "portal", person),
            )
            await self._sessions.put(session, instead_of=[link.id, session_id(instead_of)], audit=[entry])
        return begun

    async def _again(self, begun: str) -> str:
        try:
            await self._sessions.find(begun)
        except Unauthorized:
            raise Forbidden(REFUSED) from None
        return begun
