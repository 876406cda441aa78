"""Invites a user to the demo: with a link to the dashboard, and a command."""

from __future__ import annotations

import textwrap
from functools import partial

import trio

from hookgw.app.server import Server
from hookgw.core.browser_sessions import LINK_LIFETIME

RENEW_AFTER = LINK_LIFETIME - 60
"""Seconds after which another link is shown, so that a copied link has a minute left."""


class Invitation:
    """A link to the dashboard that works whenever it is read, and a command to join in.

    Args:
        program: how to call hookgw in another terminal.
    """

    def __init__(self, server: Server, key: str, program: str) -> None:
        self._server = server
        self._key = key
        self._program = program
        self._link = ""
        self._renew_at = 0.0

    @property
    def url(self) -> str:
        return self._server.urls[0]

    def link(self) -> str:
        """Return a link that logs in once: a new one if the last was used, or is about to expire."""
        if not self._link or trio.current_time() >= self._renew_at:
            link = self._server.login_link(self._key, self._forget_link)
            self._link = link or f"{self.url}/dashboard"
            self._renew_at = trio.current_time() + RENEW_AFTER
        return self._link

    def _forget_link(self) -> None:
        self._link = ""

    def command(self, width: int) -> list[str]:
        """Return a command that sends a message, as lines to paste, of ``width`` columns if possible."""
        # With the URL: an environment or a profile of the user may lead to another gateway.
        environment = f"HOOKGW_URL={self.url} HOOKGW_KEY={self._key}"
        command = f"{self._program} message send demo 5511999999999 Hello"
        fold = partial(
            textwrap.wrap,
            width=max(width, 20) - 2,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = [*fold(environment), *fold(command, initial_indent="  ")]
        return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
