"""The frame of every page: session, form token, origin, errors, security headers, templates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from quart import Blueprint, Response, g, render_template, request

from hookgw._version import __version__
from hookgw.core.audit import act_as, holder_as_actor
from hookgw.core.browser_sessions import SignedIn
from hookgw.kernel.errors import (
    Forbidden,
    HookgwError,
    Invalid,
    NotFound,
    StorageUnavailable,
    Unauthorized,
    UnsupportedContentType,
)
from hookgw.records.api_keys import Principal, Right
from hookgw.records.browser_sessions import form_token, is_form_token
from hookgw.site.assets import load_assets
from hookgw.site.cookies import SESSION, Cookies
from hookgw.site.formats import install_filters
from hookgw.site.notices import NOTICES
from hookgw.site.origin import refusal_of
from hookgw.web.auth import check_need, check_reach_again
from hookgw.web.needs import ANY_KEY, OPEN, Declared, Need, Scope, need_of
from hookgw.web.request_body import current_exchange, kept_body, read_body, reserve
from hookgw.web.server.errors import BUG, response_to
from hookgw.web.server.response_memory import PAGE
from hookgw.web.templates import load_templates

if TYPE_CHECKING:
    from quart.blueprints import BlueprintSetupState

    from hookgw.app.gateway import Gateway
    from hookgw.auth.keyring import KeyHolder

View = Callable[..., Awaitable[Response]]

NEED = "__hookgw_need__"
"""The attribute of a registered view that has what it needs."""
PREFIX = "/dashboard"
"""The path of the dashboard below the base path."""
MOST_FIELDS = 1000
"""The most fields of a form."""
_FORM = "application/x-www-form-urlencoded"
_HTML = "text/html; charset=utf-8"
_SECURITY = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",  # for browsers that do not know frame-ancestors
    # Not no-referrer: with that, browsers send "null" as the origin of our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


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
    def title(self) -> str:
        """Whom the pages name as signed in."""
        if self.principal.is_operator:
            return "global key"
        return self.principal.instance or f"key {self.holder.key.name}"

    def has(self, right: str) -> bool:
        """Return whether the visitor's key has a right, for templates."""
        return self.principal.rights.has(Right(right))


class NavEntry(NamedTuple):
    """A link of the navigation.

    Attributes:
        path: below the dashboard, with a leading slash; empty for the overview.
        right: that a key needs to see it; ``None`` for any key.
        is_global: whether only a key that reaches everything sees it.
    """

    title: str
    path: str
    right: Right | None = Right.READ
    is_global: bool = False

    def is_for(self, principal: Principal) -> bool:
        may_read = self.right is None or principal.rights.has(self.right)
        return may_read and (principal.is_global or not self.is_global)


def visitor() -> Visitor:
    found: Visitor = g.visitor
    return found


class Site:
    """The dashboard of one gateway: registers views, and renders their results.

    Args:
        packages: have templates of pages, beside those of the frame.

    Attributes:
        root: the path of the dashboard, with the base path.
        nav: the links of the navigation; pages add theirs.
        further_nav: returns the links after those, which can change.
    """

    def __init__(self, gateway: Gateway, packages: Sequence[str]) -> None:
        self.gateway = gateway
        self.root = gateway.settings.server.base_path + PREFIX
        self.blueprint = Blueprint("dashboard", __name__, url_prefix=PREFIX)
        self.blueprint.jinja_loader = load_templates("hookgw.site", *packages)
        self.nav: list[NavEntry] = []
        self.further_nav: Callable[[], Iterable[NavEntry]] = tuple
        self._limit = gateway.settings.server.max_body
        self._assets = load_assets()
        install_filters(self.blueprint)
        self.blueprint.record(self._remember_templates)
        self.blueprint.register_error_handler(Exception, self.error_page)
        self.add("/assets/<name>", self._asset, OPEN)
        self.add("/<path:rest>", self._missing, ANY_KEY)

    def _remember_templates(self, state: BlueprintSetupState) -> None:
        self._templates = state.app.jinja_env

    def add(self, path: str, view: View, needs: Declared, *methods: str, page: str | None = None) -> None:
        """Register a view.

        For a view that is not open, the session is checked first, and then what the view needs; without a
        session, the browser is sent to the login. A view that makes a change has a separate method, ``POST``,
        and reads the form with :meth:`form`.

        Args:
            path: below the dashboard.
            needs: as for routes of the API; ``OPEN`` for no session.
            view: takes the path's variables, and returns a response. It may raise errors of
                :mod:`hookgw.kernel.errors`, which become a page.
            methods: ``GET`` by default.
            page: for a form, the path of its page, with the path's variables in braces. A browser that opens
                the form's own address, as after a reload, is sent there.
        """

        need = need_of(needs, path, ["instance"] if "<instance>" in path else [])
        is_open = need.scope is Scope.OPEN

        @wraps(view)
        async def checked(**values: Any) -> Response:
            try:
                if not is_open:
                    await self._enter(need, values)
                if request.method == "POST":
                    refusal = refusal_of(request.headers, self.gateway.settings.server.public_url)
                    if refusal is not None:
                        raise Forbidden(refusal)
                elif not is_open:
                    await reserve(PAGE)
                response = await view(**values)
            except Unauthorized:
                response = self._to_login()
            except HookgwError as error:
                return await self.error_page(error)
            response.headers.update(_SECURITY)
            return response

        setattr(checked, NEED, need)  # for the table of all needs
        name = f"{view.__module__.rpartition('.')[2]}.{view.__name__}".replace(".", "_")
        self.blueprint.add_url_rule(path, name, checked, methods=list(methods) or ["GET"])
        if page is not None:

            async def opened(**values: str) -> Response:
                response = self.redirect(page.format_map({key: quote(one) for key, one in values.items()}))
                response.headers.update(_SECURITY)
                return response

            self.blueprint.add_url_rule(path, f"{name}_page", opened, methods=["GET"])

    async def _enter(self, need: Need, values: Mapping[str, Any]) -> None:
        """Find the session of the current request, and count the request as one with its key."""
        token = self.session_token
        if not token:
            raise Unauthorized("Log in first.")
        signed_in = await self._find_session(token)
        holder = signed_in.holder
        self.gateway.authenticator.admit(holder)
        scope: Any = request.scope
        exchange = current_exchange()
        if holder.counted_as is not None:
            exchange.count_for(holder.counted_as)
        client = scope["client"]
        act_as(holder_as_actor(holder, client[0] if client else None, "dashboard"))
        # As the API's authentication does: shared code asks there for the caller.
        exchange.holder = holder
        exchange.check_key = partial(self.gateway.keys.check_held, holder)
        g.holder = holder
        g.visitor = Visitor(signed_in, form_token(token))
        check_need(self.gateway.registry, holder.principal, need, values)
        check_reach_again(self.gateway, exchange, holder, values.get("instance"))

    async def _find_session(self, token: str) -> SignedIn:
        gateway = self.gateway
        try:
            return await gateway.sessions.find(token)
        except Unauthorized:
            # It may have begun on another node a moment ago. Requests at once share one read.
            with suppress(StorageUnavailable):
                await gateway.refresh.catch_up()
            return await gateway.sessions.find(token)

    @property
    def cookies(self) -> Cookies:
        # Not by server.public_url: with an https URL for the world, people inside still come over plain HTTP,
        # and their browsers would not send a Secure cookie back.
        return Cookies(self.root, self.gateway.sessions.installation, request.scheme == "https")

    @property
    def session_token(self) -> str:
        """The token in the session cookie of the current request; empty without one."""
        return self.cookies.get(SESSION, request.headers.get("cookie", ""))

    async def read_form(self, token: str) -> Form:
        """Read the form of the current request.

        Args:
            token: the form token was made from it.

        Raises:
            Forbidden: the form token is missing or wrong.
            Invalid, TooLarge, UnsupportedContentType: the body is not a form, or too large.
            Unauthorized: the session's key was revoked while the body arrived.
        """
        given = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if given != _FORM:
            raise UnsupportedContentType(f"The content type must be {_FORM}, not {given[:100]!r}.")
        # Kept: the form may be for another node.
        body = await read_body(request.headers, kept_body(), self._limit, current_exchange())
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise Invalid(f"The form is not valid: UTF-8, with at most {MOST_FIELDS} fields.") from None
        form = Form(pairs)
        if not is_form_token(form.get("form_token"), token):
            raise Forbidden(
                "The form has expired; nothing was changed. Go back, reload the page, and repeat."
            )
        return form

    async def form(self) -> Form:
        """Read the form of a view with a session; see :meth:`read_form`."""
        return await self.read_form(self.session_token)

    async def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page.

        Args:
            template: its name in ``templates``; it extends ``frame.html``.
            values: for the template, beside ``site``, ``visitor``, ``version`` and the like.
        """
        who: Visitor | None = g.get("visitor")
        text = await render_template(
            f"dashboard/{template}",
            site=self,
            root=self.root,
            asset=self._asset_url,
            visitor=who,
            nav=[
                one
                for one in (*self.nav, *self.further_nav())
                if who is not None and one.is_for(who.principal)
            ],
            here=request.path.removeprefix(PREFIX).rstrip("/"),
            notice=NOTICES.get(request.args.get("done", "")),
            version=__version__,
            **values,
        )
        return Response(text, status, content_type=_HTML)

    async def fragment(self, template: str, **values: Any) -> str:
        """Return a part of a page, for the page itself and for its live updates."""
        # Not Quart's render_template: live updates are rendered outside of a request.
        found = self._templates.get_template(f"dashboard/{template}")
        return await found.render_async(root=self.root, **values)

    async def error_page(self, error: Exception) -> Response:
        """Return the page of an error, with its status. A bug is logged, and the page says no more of it."""
        status, _, headers = response_to(error, request.method, request.path)
        messages = error.messages if isinstance(error, HookgwError) else [BUG]
        response = await self.render(
            "error.html", status, messages=messages, phrase=HTTPStatus(status).phrase
        )
        wait = headers.get("retry-after")
        if wait is not None:
            response.headers["retry-after"] = wait
            if self.gateway.node.is_shared and status == 503 and request.method == "GET":
                response.headers["refresh"] = wait  # an instance that moves is elsewhere in a moment
        response.headers.update(_SECURITY)
        return response

    def redirect(self, path: str, **query: str) -> Response:
        """Return a redirect (303, so that the browser reads the next page) to a page of the dashboard.

        Args:
            path: below the dashboard, escaped.
            query: ``done`` names the notice that the page shows.
        """
        location = f"{self.root}{path}" + (f"?{urlencode(query)}" if query else "")
        return Response(b"", 303, {"location": location}, content_type=_HTML)

    def _to_login(self) -> Response:
        here = request.full_path.rstrip("?") if request.method == "GET" else ""
        here = here.removeprefix(PREFIX)
        response = self.redirect("/login", **({"next": here} if here not in ("", "/") else {}))
        if self.session_token:
            response.headers.add("set-cookie", self.cookies.remove(SESSION))
        return response

    def _asset_url(self, name: str) -> str:
        return f"{self.root}/assets/{quote(name)}?v={self._assets[name].version}"

    async def _asset(self, name: str) -> Response:
        found = self._assets.get(name)
        if found is None:
            raise NotFound(f"There is no file {name[:64]!r}.")
        current_exchange().is_static = True
        # The version in the URL changes with the content, so a browser need never ask again.
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(found.content, headers=headers, content_type=found.content_type)

    async def _missing(self, rest: str) -> Response:
        raise NotFound(f"There is no page {rest[:64]!r}.")


class Form:
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a field, without spaces around it."""
        return next((value.strip() for key, value in self._pairs if key == name), default)

    def text(self, name: str) -> str:
        """Return the first value of a field as it was typed, with the line ends of Unix."""
        return next((value.replace("\r\n", "\n") for key, value in self._pairs if key == name), "")

    def all(self, name: str) -> list[str]:
        """Return every value of a field, for example of checkboxes."""
        return [value for key, value in self._pairs if key == name]

    def has(self, name: str) -> bool:
        """Return whether a field was sent: of a checkbox, whether it is ticked."""
        return any(key == name for key, _ in self._pairs)

    def names(self) -> list[str]:
        return list(dict.fromkeys(key for key, _ in self._pairs))
