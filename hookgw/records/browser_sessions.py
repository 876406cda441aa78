"""Sessions of the dashboard. No I/O."""

from __future__ import annotations

import hashlib
import hmac
import secrets

import msgspec

IDLE_LIMIT = 12 * 3600.0
"""Seconds without use after which a session ends."""
_TOKEN_BYTES = 24
_LINK_BYTES = 15


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session.

    Attributes:
        id: the hash of the session's token. The token itself is only in the browser's cookie.
        key_hash: the hash of the key that signed in; see :meth:`hookgw.auth.keyring.Keyring.hash`.
        used_at: the time of the last use, as far as it is stored.
        person: whom a trusted proxy named as the session began; empty for nobody. Nobody else can use it.
        is_of_user: whether it began because ``auth.users`` maps the person to its key.
    """

    id: str
    key_hash: str
    created_at: float
    used_at: float
    person: str = ""
    is_of_user: bool = False

    def has_ended(self, now: float) -> bool:
        """Return whether the session was unused for too long."""
        # A clock that was set back makes a session live longer, by as much; it never ends one early.
        return now - self.used_at >= IDLE_LIMIT


def new_token() -> str:
    """Return a new random token of 192 bits, for a session."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


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
