"""Sessions of the dashboard. No I/O."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

import msgspec

from hookgw.records.api_keys import Reach

IDLE_LIMIT = 12 * 3600.0
"""Seconds without use after which a session ends."""
PORTAL_PAGES = ("overview", "code")
"""The pages with which a portal can begin. ``code`` is the code to scan."""
_TOKEN_BYTES = 24
_LINK_BYTES = 15


class Portal(msgspec.Struct, frozen=True, kw_only=True):
    """What a session may do that began with a portal link; or the link, as long as nobody has opened it.

    Attributes:
        reach, rights: within those of the key that made the link. ``rights`` are words of ``Rights``.
        ends_at: the end of the session, however much it is used, or of the link.
        return_url: where "Back to …" leads; empty for nowhere.
        opens: the page with which it begins; a word of :data:`PORTAL_PAGES`.
        is_link: whether it is a link. Its token is in the link, and that of its session is another.
    """

    reach: Reach
    rights: tuple[str, ...]
    ends_at: float
    return_url: str = ""
    opens: str = ""
    is_link: bool = False

    @property
    def group(self) -> str:
        """The same for the sessions of one customer, whoever made their links."""
        return hashlib.sha256(msgspec.json.encode(self.reach, order="deterministic")).hexdigest()[:12]


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session.

    Attributes:
        id: the hash of the session's token. The token itself is only in the browser's cookie.
        key_hash: the hash of the key that signed in; see :meth:`hookgw.auth.keyring.Keyring.hash`.
        used_at: the time of the last use, as far as it is stored.
        person: whom a trusted proxy named as the session began; empty for nobody. Nobody else can use it.
        is_of_user: whether it began because ``auth.users`` maps the person to its key.
        portal: ``None`` for a session with all that the key may do.
    """

    id: str
    key_hash: str
    created_at: float
    used_at: float
    person: str = ""
    is_of_user: bool = False
    portal: Portal | None = None

    @property
    def is_link(self) -> bool:
        return self.portal is not None and self.portal.is_link

    @property
    def group(self) -> tuple[object, ...]:
        """Sessions of one group have a limit of their own, and do not end those of another."""
        # The reach itself: each sign-in compares with all sessions, and Portal.group is a hash.
        return self.key_hash, self.person, None if self.portal is None else self.portal.reach, self.is_link

    def has_ended(self, now: float) -> bool:
        """Return whether the session was unused for too long, or has reached its end."""
        if self.portal is not None and (self.portal.is_link or now >= self.portal.ends_at):
            return now >= self.portal.ends_at
        # A clock that was set back makes a session live longer, by as much; it never ends one early.
        return now - self.used_at >= IDLE_LIMIT


def new_token() -> str:
    """Return a new random token of 192 bits, for a session."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def token_of_portal(link: str, browser: str) -> str:
    """Return the token of the session that a portal link begins in a browser, which is the same each time.

    Args:
        link: the token of the link.
        browser: a secret that this browser alone has.
    """
    digest = hmac.new(
        browser.encode("utf-8", "surrogatepass"), link.encode("utf-8", "surrogatepass"), hashlib.sha256
    ).digest()
    return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode("ascii")


def new_link_token() -> str:
    """Return a new random token of 120 bits, for a link: the link fits a terminal of 60 columns."""
    return secrets.token_urlsafe(_LINK_BYTES)


def session_id(token: str) -> str:
    # The token is random, so a hash without a salt tells nothing about it.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def form_token(token: str) -> str:
    """Return the text in every form of a session; without it, another site could forge a form."""
    return hmac.new(token.encode("utf-8", "surrogatepass"), b"form", hashlib.sha256).hexdigest()


def is_form_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), form_token(token).encode())
