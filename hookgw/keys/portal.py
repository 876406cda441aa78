"""Portal links: each opens the dashboard once, without a key, with a part of what a key may do.

A link is a stored session that nobody has begun. So it survives a restart, every node of a fleet knows it,
and it is used up in the commit that begins the session. Its token is behind the ``#`` of its URL: browsers
send that to no server, so neither logs nor the previews of chats have it. The page behind the URL sends the
token in a form, when its reader presses a button.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import trio

from hookgw.auth.keyring import KeyHolder
from hookgw.core.access import check_reach
from hookgw.core.audit import Audit, holder_as_actor
from hookgw.core.browser_sessions import BrowserSessions
from hookgw.core.open import Core
from hookgw.core.shielded import completes
from hookgw.kernel.errors import Forbidden, Invalid, NotFound, TooManyRequests, Unauthorized
from hookgw.kernel.json_fields import Fields, as_object, as_text, duration
from hookgw.kernel.schema_parts import DURATION_SCHEMA, NAME_SCHEMA, Schema, or_null, ref
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import DAY
from hookgw.records.api_keys import Reach, Right, Rights
from hookgw.records.audit import AuditAction
from hookgw.records.browser_sessions import BrowserSession, Portal, new_token, session_id
from hookgw.records.tags import check_tags

LIFETIME = 900
SHORTEST_LIFETIME, LONGEST_LIFETIME = 60, 7 * DAY
"""Seconds for which a link can be opened: by default, and at most."""
SESSION_LIFETIME = 8 * 3600
"""Seconds after which the session of a link ends, however much it is used."""
MOST_PORTAL_LINKS = 1000
"""The most links of one key that wait to be opened."""
LONGEST_URL = 2048
MOST_INSTANCES = 1000
DEFAULT_RIGHTS = ("read",)
GIVEN = tuple(right for right in Right if right not in (Right.KEYS, Right.OPERATE))
"""Rights that a link can give. A key would outlast the session; and what concerns everything, or gives reach
away, is not for somebody who has no key."""
REFUSED = "This link has been used, or has expired. Ask whoever gave it to you for another one."
"""The same for every link that cannot be opened."""


class PortalRequest(NamedTuple):
    """What a link is to give.

    Attributes:
        instances: names; ``None`` for those with the tags.
        rights: words.
        lifetime: seconds for which it can be opened.
    """

    tags: Mapping[str, str]
    instances: tuple[str, ...] | None
    rights: tuple[str, ...]
    lifetime: float
    return_url: str


PORTAL_REQUEST: Schema = {
    "type": "object",
    "additionalProperties": False,
    "description": "Send `tags` or `instances`.",
    "properties": {
        "tags": or_null(
            ref("TagsOfInstance"), "The instances that carry all of these, also those made later."
        ),
        "instances": or_null(
            {"type": "array", "items": NAME_SCHEMA, "minItems": 1, "maxItems": MOST_INSTANCES},
            "These instances alone, not later ones of the same names.",
        ),
        "rights": or_null(
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            f"What it gives: some of {', '.join(GIVEN)}, as far as the caller's key has them. By default "
            f"{', '.join(DEFAULT_RIGHTS)}.",
        ),
        "expires": or_null(DURATION_SCHEMA, "For how long the link can be opened: 1m to 7d, by default 15m."),
        "returnUrl": or_null(
            {"type": "string", "maxLength": LONGEST_URL, "format": "uri"},
            "An http or https URL to which “Back to …” leads on every page.",
        ),
    },
}


def parse_portal_request(body: Any) -> PortalRequest:
    """Read the body of ``/portal/link``. Raise ``Invalid`` with every mistake."""
    fields = Fields(("", as_object(body, "The body")))
    tags = fields.read(check_tags, {}, "tags")
    instances = fields.pick(_check_names, "instances")
    if (fields.find("tags") is None) == (fields.find("instances") is None):
        fields.problems.append('Send tags or instances, and not both, such as {"tags": {"tenant": "acme"}}.')
    elif fields.find("tags") is not None and not tags and not fields.problems:
        fields.problems.append("tags must have at least one tag: a link never opens everything.")
    request = PortalRequest(
        tags,
        instances,
        fields.read(_check_rights, DEFAULT_RIGHTS, "rights"),
        fields.read(duration(SHORTEST_LIFETIME, LONGEST_LIFETIME), LIFETIME, "expires"),
        fields.read(check_return_url, "", "returnUrl"),
    )
    # A misspelt limit would give more than is meant.
    fields.refuse_unknown("a portal link")
    fields.finish()
    return request


def _check_names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise Invalid(f"{where} must be a list of names of instances.")
    if len(value) > MOST_INSTANCES:
        raise Invalid(f"{where} has {len(value):,} names; at most {MOST_INSTANCES:,} are allowed.")
    return tuple(dict.fromkeys(value))


def _check_rights(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise Invalid(f"{where} must be a list of rights, such as {list(DEFAULT_RIGHTS)}.")
    wrong = [word for word in value if word.partition(":")[0] not in GIVEN or not Rights.of([word]).names]
    if wrong:
        raise Invalid(f"{where}: a link can give {', '.join(GIVEN)}, not {wrong[0][:64]!r}.")
    return Rights.of(value).words


def check_return_url(value: Any, where: str) -> str:
    """Check a URL that pages may link to: anything but http and https could run a script."""
    text = as_text(value, where)
    wrong = f"{where} must be an http or https URL of at most {LONGEST_URL:,} characters, without a user."
    if not (text.isascii() and text.isprintable() and " " not in text and "\\" not in text):
        raise Invalid(wrong)
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise Invalid(wrong) from None
    if not is_right or "@" in parts.netloc or len(text) > LONGEST_URL:
        raise Invalid(wrong)
    return text


class PortalLinks:
    """Makes links, and opens them."""

    def __init__(self, core: Core) -> None:
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
            Forbidden: it would give a right that the key does not have, or an instance out of its reach.
            NotFound: an instance does not exist.
            TooManyRequests: too many links of the key wait to be opened.
            Unauthorized: the key was revoked, or has expired, meanwhile.
            StorageUnavailable: the disk refuses.
        """
        if not self._keyring.is_held(maker):
            raise Unauthorized("The key is no longer valid.")
        rights = Rights.of(asked.rights)
        if not maker.principal.rights.covers(rights):
            missing = next(
                word for word in asked.rights if not maker.principal.rights.covers(Rights.of([word]))
            )
            raise Forbidden(f"This key does not have the right '{missing}', so it cannot give it away.")
        reach = (await self._reach_of(maker, asked)).within(maker.principal.reach)
        now = self._clock.wall()
        ends_at = now + asked.lifetime
        if maker.key.expires_at is not None:
            ends_at = min(ends_at, maker.key.expires_at)
        if self._sessions.links_of(maker.key.hash) >= MOST_PORTAL_LINKS:
            raise TooManyRequests(
                f"{MOST_PORTAL_LINKS:,} links of this key wait to be opened, the maximum. Retry later.",
                retry_after=60,
            )
        token = new_token()
        portal = Portal(
            reach=reach, rights=rights.words, ends_at=ends_at, return_url=asked.return_url, is_link=True
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

    async def _reach_of(self, maker: KeyHolder, asked: PortalRequest) -> Reach:
        if asked.instances is None:
            return Reach(tags=tuple(asked.tags.items()))
        if any(self._registry.find_instance(name) is None for name in asked.instances):
            await self._refresh.catch_up()  # another node may have made it a moment ago
        found = []
        for name in asked.instances:
            check_reach(self._registry, maker.principal, name)
            instance = self._registry.find_instance(name)
            if instance is None:
                raise NotFound(f"There is no instance {name[:128]!r}.")
            found.append(instance.id)
        return Reach(frozenset(found))

    @completes
    async def open(
        self, token: str, *, address: str | None = None, person: str = "", instead_of: str = ""
    ) -> str:
        """Use a link up, and return the token of the session that it begins.

        Args:
            address: the client's IP address; ``None`` over a Unix socket.
            person, instead_of: see :meth:`BrowserSessions.begin`.

        Raises:
            Forbidden: no link has this token, or it was used or has expired, or its key has.
            StorageUnavailable: the disk refuses; the link can be opened as before.
        """
        if self._sessions.find_link(token) is None:
            # Another node may have made it a moment ago. Calls at once share one read.
            await self._refresh.catch_up()
            if self._sessions.find_link(token) is None:
                raise Forbidden(REFUSED)
        # Of two who open it at once, at any nodes, the second finds it used.
        async with self._lock, self._refresh.alone():
            link = self._sessions.find_link(token)
            maker = None if link is None else self._keyring.holder_of(link.key_hash)
            if link is None or link.portal is None or maker is None:
                raise Forbidden(REFUSED)
            begun, now = new_token(), self._clock.wall()
            session = BrowserSession(
                id=session_id(begun),
                key_hash=link.key_hash,
                created_at=now,
                used_at=now,
                person=person,
                portal=Portal(
                    reach=link.portal.reach,
                    rights=link.portal.rights,
                    ends_at=now + SESSION_LIFETIME,
                    return_url=link.portal.return_url,
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
