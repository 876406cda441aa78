"""The cookies of the dashboard. No I/O.

Browsers do not separate cookies by port. So each name ends with the short id of the installation: two
gateways on one host, or a second one behind another path, leave each other's sessions alone.

Over TLS their names begin with ``__Host-``: browsers then accept them only from this host, over TLS, and no
other host of the domain can set them (RFC 6265bis, section 4.1.3.2).
"""

from __future__ import annotations

from typing import NamedTuple

SESSION = "hookgw_session"
"""Holds the token of the session."""
VISIT = "hookgw_visit"
"""Holds a random token before there is a session, to which the login form is bound."""


class Cookies(NamedTuple):
    """The names and attributes of cookies for one request.

    Attributes:
        path: of the dashboard, with the base path.
        installation: see :attr:`hookgw.auth.keyring.Keyring.installation`.
        is_secure: whether the browser reaches hookgw over TLS.
    """

    path: str
    installation: str
    is_secure: bool

    def name(self, name: str) -> str:
        named = f"{name}_{self.installation}"
        return f"__Host-{named}" if self.is_secure else named

    def set(self, name: str, value: str) -> str:
        """Return the ``Set-Cookie`` header that sets a cookie until the browser ends."""
        return self._header(name, value, None)

    def remove(self, name: str) -> str:
        return self._header(name, "", 0)

    def _header(self, name: str, value: str, seconds: int | None) -> str:
        # __Host- requires the path "/".
        path = "/" if self.is_secure else self.path
        age = "" if seconds is None else f"; Max-Age={seconds}"
        secure = "; Secure" if self.is_secure else ""
        return f"{self.name(name)}={value}; Path={path}{age}; HttpOnly; SameSite=Strict{secure}"

    def get(self, name: str, header: str) -> str:
        # By hand: another program on this host may have set a cookie that SimpleCookie refuses, with all of
        # them.
        wanted = self.name(name)
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == wanted:
                return value
        return ""
