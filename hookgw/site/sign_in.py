"""Logging in with a key or a link, and logging out."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from quart import Response, g, request

from hookgw.auth.keyring import KeyHolder
from hookgw.kernel.errors import Forbidden, HookgwError
from hookgw.kernel.language import N_
from hookgw.site.addresses import local_path
from hookgw.site.cookies import SESSION
from hookgw.site.site import Page, Site, visitor
from hookgw.web.auth import look_for_key
from hookgw.web.needs import ANY_KEY, OPEN
from hookgw.web.request_body import current_exchange

_WRONG = N_("This key is not valid. Check that you copied all of it.")
_NO_KEY = N_("Enter a key.")
_ENDED = N_("Your session has ended. Nothing was changed.")


class SignIn(Page):
    """The pages ``/dashboard/login`` and ``/dashboard/enter/<token>``, and the button that logs out."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/login", self._form, OPEN)
        site.add("/login", self.log_in, OPEN, "POST")
        site.add("/enter/<token>", self.enter, OPEN)
        site.add("/logout", self.log_out, ANY_KEY, "POST", page="/")

    async def _form(
        self, alert: str | Sequence[str] | None = None, status: int = 200, after: str = ""
    ) -> Response:
        return await self._site.render_open(
            "login.html",
            status,
            alert=alert or (_ENDED if "ended" in request.args else None),
            after=after or _local(request.args.get("next", "")),
            person=self._person(),
        )

    def _person(self) -> str:
        """Return whom a trusted proxy names and ``auth.users`` has a key for; empty for nobody."""
        try:
            person = self._site.person
            self._site.people.key_of(person)
        except Forbidden:
            return ""
        return person

    async def log_in(self) -> Response:
        form = await self._site.open_form()
        after = _local(form.get("next"))
        key = form.get("key")
        if not key:
            return await self._form(_NO_KEY, 400, after)
        address = current_exchange().client_host
        try:
            # Wrong keys count towards the same limit as those of the API.
            await look_for_key(self._gateway, key, address)
            holder = self._gateway.authenticator.authenticate(key, address)
        except HookgwError as error:
            return await self._form(error.messages, error.status, after)
        if holder is None:
            return await self._form(_WRONG, 401, after)
        return await self._entered(holder, after)

    async def enter(self, token: str) -> Response:
        """Begin a session with a link that hookgw printed in a terminal of this machine."""
        address = current_exchange().client_host
        if address is not None and not ip_address(address.partition("%")[0]).is_loopback:
            raise Forbidden.of(
                "session.local_link",
                "This link works only on the machine that runs hookgw. Log in with a key.",
            )
        try:
            holder = self._gateway.sessions.use_link(token)
        except HookgwError as error:
            return await self._form(error.messages, error.status)
        return await self._entered(holder, "")

    async def _entered(self, holder: KeyHolder, after: str) -> Response:
        token = await self._gateway.sessions.begin(
            holder, instead_of=self._site.session_token, person=self._site.person
        )
        return self._site.entered(token, after)

    async def log_out(self) -> Response:
        await self._site.form()
        await self._gateway.sessions.end(visitor().signed_in.session)
        if visitor().portal is not None:
            # Whoever came with a link has no key to log in with.
            left = visitor()
            g.visitor = None
            response = await self._site.render("portal_left.html", left=left)
        else:
            response = self._site.redirect("/login", done="logged_out")
        response.headers.add("set-cookie", self._site.cookies.remove(SESSION))
        return response


def _local(path: str) -> str:
    """Return a path below the dashboard to go to after the login; empty for any other path."""
    return local_path(path, "/login", "/enter")
