"""Who looks at a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from quart import g

from hookgw.core.browser_sessions import SignedIn
from hookgw.kernel.language import gettext as _
from hookgw.records.api_keys import Principal, Right
from hookgw.records.browser_sessions import Portal

if TYPE_CHECKING:
    from hookgw.auth.keyring import KeyHolder


class Visitor(NamedTuple):
    """The session of a page. Every form of it carries ``form_token``."""

    signed_in: SignedIn
    form_token: str

    @property
    def holder(self) -> KeyHolder:
        return self.signed_in.holder

    @property
    def principal(self) -> Principal:
        return self.signed_in.holder.principal

    @property
    def portal(self) -> Portal | None:
        """What the portal link gives with which the session began; ``None`` for a key's session."""
        return self.signed_in.session.portal

    @property
    def back_to(self) -> str:
        """The host of the page from which a portal link leads here, without its port; empty for none."""
        return "" if self.portal is None else urlsplit(self.portal.return_url).hostname or ""

    @property
    def title(self) -> str:
        """Whom the pages name as signed in; empty for who came with a portal link."""
        if self.signed_in.session.person or self.portal is not None:
            return self.signed_in.session.person
        if self.principal.is_operator:
            return _("global key")
        return self.principal.instance or _("key {name}", name=self.holder.key.name)

    def has(self, right: str) -> bool:
        """Return whether the visitor's key has a right, for templates."""
        return self.principal.rights.has(Right(right))


def visitor() -> Visitor:
    found: Visitor = g.visitor
    return found
