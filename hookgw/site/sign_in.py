"""Logging in with a key or a link, and logging out."""

from __future__ import annotations

from ipaddress import ip_address

from quart import Response, request

from hookgw.auth.keyring import KeyHolder
from hookgw.kernel.errors import Forbidden, HookgwError
from hookgw.records.browser_sessions import form_token, new_token
from hookgw.site.cookies import SESSION, VISIT
from hookgw.site.site import Site, visitor
from hookgw.web.needs import ANY_KEY, OPEN

_WRONG = "This key is not valid. Check that you copied all of it."
_NO_KEY = "Enter a key."
_NO_COOKIE = (
    "Your browser did not send back the cookie of the login form, so hookgw cannot tell that the form is its "
    "own. Allow cookies for this address, go back, reload the page and log in. A proxy in front of hookgw "
    "must pass cookies on, send as x-forwarded-proto what the browser uses, and serve hookgw under the path "
    "that server.base_path names."
)


class SignIn:
    """The pages ``/dashboard/login`` and ``/dashboard/enter/<token>``, and the button that logs out."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._gateway = site.gateway
        site.add("/login", self.login, OPEN)
        site.add("/login", self.log_in, OPEN, "POST")
        site.add("/enter/<token>", self.enter, OPEN)
        site.add("/logout", self.log_out, ANY_KEY, "POST", page="/")

    async def login(self) -> Response:
        return await self._form()

    async def _form(self, alert: str | None = None, status: int = 200, after: str = "") -> Response:
        cookies = self._site.cookies
        visit = cookies.get(VISIT, request.headers.get("cookie", ""))
        response_cookie = None
        if not visit:
            visit = new_token()
            response_cookie = cookies.set(VISIT, visit)
        response = await self._site.render(
            "login.html",
            status,
            alert=alert,
            form_token=form_token(visit),
            after=after or _local(request.args.get("next", "")),
        )
        if response_cookie is not None:
            response.headers.add("set-cookie", response_cookie)
        return response

    async def log_in(self) -> Response:
        visit = self._site.cookies.get(VISIT, request.headers.get("cookie", ""))
        if not visit:
            raise Forbidden(_NO_COOKIE)
        form = await self._site.read_form(visit)
        after = _local(form.get("next"))
        key = form.get("key")
        if not key:
            return await self._form(_NO_KEY, 400, after)
        client = request.scope["client"]
        try:
            # Wrong keys count towards the same limit as those of the API.
            holder = self._gateway.authenticator.authenticate(key, client[0] if client else None)
        except HookgwError as error:
            return await self._form(" ".join(error.messages), error.status, after)
        if holder is None:
            return await self._form(_WRONG, 401, after)
        return await self._entered(holder, after)

    async def enter(self, token: str) -> Response:
        """Begin a session with a link that hookgw printed in a terminal of this machine."""
        client = request.scope["client"]
        if client is not None and not ip_address(client[0].partition("%")[0]).is_loopback:
            raise Forbidden("This link works only on the machine that runs hookgw. Log in with a key.")
        try:
            holder = self._gateway.sessions.use_link(token)
        except HookgwError as error:
            return await self._form(" ".join(error.messages), error.status)
        return await self._entered(holder, "")

    async def _entered(self, holder: KeyHolder, after: str) -> Response:
        token = await self._gateway.sessions.begin(holder, instead_of=self._site.session_token)
        response = self._site.redirect(after or "/")
        cookies = self._site.cookies
        response.headers.add("set-cookie", cookies.set(SESSION, token))
        # Another visit gets another form: the token of the login form ends with the login.
        response.headers.add("set-cookie", cookies.remove(VISIT))
        return response

    async def log_out(self) -> Response:
        await self._site.form()
        await self._gateway.sessions.end(visitor().signed_in.session)
        response = self._site.redirect("/login", done="logged_out")
        response.headers.add("set-cookie", self._site.cookies.remove(SESSION))
        return response


def _local(path: str) -> str:
    """Return a path below the dashboard to go to after the login; empty for any other path."""
    # It is appended to the path of the dashboard, so it cannot lead to another site; this only keeps out
    # what the browser or the routing would read in another way.
    is_plain = path.startswith("/") and path.isprintable() and path.isascii() and "\\" not in path
    return path if is_plain and len(path) <= 2000 and not path.startswith(("//", "/login", "/enter")) else ""
