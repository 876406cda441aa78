"""The frame of every page: session, form token, origin, errors, security headers, templates."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from quart import Blueprint, Response, g, render_template, request

from hookgw._version import __version__
from hookgw.auth.keyring import KeyHolder
from hookgw.auth.proxy_people import ProxyPeople
from hookgw.core.access import reaches
from hookgw.core.audit import act_as, holder_as_actor
from hookgw.core.browser_sessions import SignedIn
from hookgw.kernel.errors import (
    Forbidden,
    HookgwError,
    Invalid,
    NotFound,
    Unauthorized,
    UnsupportedContentType,
)
from hookgw.kernel.language import LANGUAGES, current_language, html_language, use_language
from hookgw.kernel.sentences import Sentence
from hookgw.records.api_keys import Principal, Right
from hookgw.records.browser_sessions import form_token, is_form_token, new_token
from hookgw.records.sentences import NO_PAGE
from hookgw.site.addresses import local_path, page_address
from hookgw.site.assets import load_assets
from hookgw.site.brand import load_brand
from hookgw.site.cookies import SESSION, VISIT, Cookies
from hookgw.site.formats import install_filters
from hookgw.site.languages import install_texts
from hookgw.site.notices import NOTICES
from hookgw.site.origin import refusal_of
from hookgw.site.streams import Streams
from hookgw.site.visitor import Visitor as Visitor
from hookgw.site.visitor import visitor as visitor
from hookgw.web.auth import (
    DASHBOARD_PATH,
    KEY_NOT_LOOKED_UP,
    check_need,
    check_reach_again,
    learn_reach,
)
from hookgw.web.body import read_body
from hookgw.web.forms import FORM
from hookgw.web.gzipped import Gzipped
from hookgw.web.languages import VARY, choice_of, requested_language, script_texts
from hookgw.web.needs import ANY_KEY, OPEN, Declared, Need, Scope, need_of
from hookgw.web.request_body import current_exchange, kept_body, reserve
from hookgw.web.server.errors import BUG, phrase_of, response_to
from hookgw.web.server.response_memory import PAGE
from hookgw.web.templates import load_templates

if TYPE_CHECKING:
    from quart.blueprints import BlueprintSetupState

    from hookgw.app.gateway import Gateway

View = Callable[..., Awaitable[Response]]

_COMPRESSION = 3
"""Of pages: 45 KB take 0.5 ms, and half of what a better one takes are saved."""
NEED = "__hookgw_need__"
"""The attribute of a registered view that has what it needs."""
MOST_FIELDS = 1000
"""The most fields of a form."""
_HTML = "text/html; charset=utf-8"
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:{}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_NOT_LOOKED_UP = Sentence(
    "session.not_looked_up",
    "This session is not known here, and the database cannot be asked for it now. Retry later.",
)
_NO_COOKIE = Sentence(
    "form.no_cookie",
    "Your browser did not send back the cookie of this form, so hookgw cannot tell that the form is its own. "
    "Allow cookies for this address, go back, reload the page and try again. A proxy in front of hookgw must "
    "pass cookies on, send as x-forwarded-proto what the browser uses, and serve hookgw under the path that "
    "server.base_path names.",
)
_SECURITY = {
    "x-frame-options": "DENY",  # for browsers that do not know frame-ancestors
    # Not no-referrer: with that, browsers send "null" as the origin of our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


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


class Page:
    """The views of a page, or of pages that belong together. A subclass adds them to the site."""

    def __init__(self, site: Site) -> None:
        self._site, self._gateway, self._streams = site, site.gateway, site.streams


class Site:
    """The dashboard of one gateway: registers views, and renders their results.

    Args:
        packages: have templates of pages, beside those of the frame.

    Attributes:
        root: the path of the dashboard, with the base path.
        brand: the operator's name, logo and colour.
        people: whom a reverse proxy can name.
        nav: the links of the navigation; pages add theirs.
        further_nav: returns the links after those, which can change.
        streams: the live parts of pages; close them when the server stops.
    """

    def __init__(self, gateway: Gateway, packages: Sequence[str]) -> None:
        self.gateway = gateway
        self.streams = Streams(gateway.sessions, gateway.node.holds, partial(reaches, gateway.registry))
        self.root = gateway.settings.server.base_path + DASHBOARD_PATH
        self.blueprint = Blueprint("dashboard", __name__, url_prefix=DASHBOARD_PATH)
        self.blueprint.jinja_loader = load_templates("hookgw.site", *packages)
        self.nav: list[NavEntry] = []
        self.further_nav: Callable[[], Iterable[NavEntry]] = tuple
        self._limit = gateway.settings.server.max_body
        version, assets = load_assets()
        self.people = ProxyPeople(gateway.settings.auth)
        self.brand = load_brand(gateway.settings.dashboard.brand, assets["dashboard.css"].content)
        self._assets = assets | self.brand.assets
        self._gzipped: dict[str, Gzipped] = {}
        self._version = version + self.brand.version
        of_logo = f" {self.brand.logo_origin}" if self.brand.logo_origin else ""
        self._security = {"content-security-policy": _POLICY.format(of_logo), **_SECURITY}
        self.script_texts = script_texts(one.content for one in assets.values())
        install_filters(self.blueprint)
        self.blueprint.record(self._remember_templates)
        self.blueprint.register_error_handler(Exception, self.error_page)
        self.blueprint.before_request(_take_language)
        self.add("/assets/<version>/<name>", self._asset, OPEN)
        # The origin is checked, and nothing is read: a form of any page may lead here, also before a login.
        self.add("/language/<language>", self._choose_language, OPEN, "POST", page="/")
        self.add("/<path:rest>", self._missing, ANY_KEY)

    def _remember_templates(self, state: BlueprintSetupState) -> None:
        self._templates = state.app.jinja_env
        install_texts(self._templates)

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
                # Where a form was: few have the address of their page, and fewer can be opened.
                form_page = page.format_map({key: quote(one) for key, one in values.items()}) if page else ""
                response = self._to_login(form_page)
            except HookgwError as error:
                response = await self.error_page(error)
            return self._finished(response)

        setattr(checked, NEED, need)  # for the table of all needs
        # By the route, not by the view, which may be a partial. Names of endpoints have no dots.
        name = f"{' '.join(methods) or 'GET'} {path}".replace(".", "_")
        self.blueprint.add_url_rule(path, name, checked, methods=list(methods) or ["GET"])
        if page is not None:

            async def opened(**values: str) -> Response:
                response = self.redirect(page.format_map({key: quote(one) for key, one in values.items()}))
                return self._finished(response)

            self.blueprint.add_url_rule(path, f"{name}_page", opened, methods=["GET"])

    def _finished(self, response: Response) -> Response:
        response.headers.update(self._security)
        begun = g.get("begun")
        if begun is not None:
            response.headers.add("set-cookie", self.cookies.set(SESSION, begun))
        return response

    async def _enter(self, need: Need, values: Mapping[str, Any]) -> None:
        """Find the session of the current request, and count the request as one with its key."""
        token, signed_in = await self._signed_in()
        holder = signed_in.holder
        self.gateway.authenticator.admit(holder)
        exchange = current_exchange()
        if holder.counted_as is not None:
            exchange.count_for(holder.counted_as)
        via = "dashboard" if signed_in.session.portal is None else "portal"
        act_as(holder_as_actor(holder, exchange.client_host, via, signed_in.session.person))
        # As the API's authentication does: shared code asks there for the caller.
        exchange.holder = holder
        exchange.check_key = partial(self.gateway.sessions.check, signed_in)
        g.holder = holder
        g.visitor = Visitor(signed_in, form_token(token))
        await learn_reach(self.gateway, exchange, holder.principal, values.get("instance"))
        check_need(self.gateway.registry, holder.principal, need, values)
        check_reach_again(self.gateway, exchange, holder, values.get("instance"))

    @property
    def person(self) -> str:
        """Whom a trusted proxy names as the sender of the current request; empty for nobody.

        Raises:
            Forbidden: the header names more than one, or nobody possible.
        """
        return self.people.person_of(current_exchange().named)

    async def _signed_in(self) -> tuple[str, SignedIn]:
        """Return the current request's session with its token.

        A person whom a trusted proxy names needs no login: the session begins with the first page.

        Raises:
            Unauthorized: there is none.
            Forbidden: the proxy names somebody without a key.
        """
        person, token = self.person, self.session_token
        if token:
            try:
                signed_in = await self._find_session(token)
            except Unauthorized:
                if not person:
                    raise
            else:
                session = signed_in.session
                # Another person at the same browser, or the same one with another key by now.
                is_theirs = session.person == person
                if session.is_of_user and self.people.users.get(person) != signed_in.holder.key.name:
                    is_theirs = False
                if is_theirs:
                    return token, signed_in
        if not person:
            raise Unauthorized.of("session.none", "Log in first.")
        holder = await self._holder_for(person)
        # Streams and scripts ask again and again, also where the browser keeps no cookie.
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            raise Unauthorized.of("session.stale_page", "Open the page again.")
        self.gateway.authenticator.admit(holder)
        token = await self.gateway.sessions.begin(holder, instead_of=token, person=person, is_of_user=True)
        # In this response, not a redirect: where the browser keeps no cookie, that would have no end.
        g.begun = token
        return token, await self.gateway.sessions.find(token)

    async def _holder_for(self, person: str) -> KeyHolder:
        name = self.people.key_of(person)
        holder = self.gateway.keys.global_holder(name)
        if holder is None:  # another node may have made it a moment ago
            await self.gateway.refresh.look_up(KEY_NOT_LOOKED_UP)
            holder = self.gateway.keys.global_holder(name)
        if holder is None:
            raise Forbidden.of(
                "person.key_gone",
                "You are signed in as {person!r}, and auth.users gives this name the key {name!r}, "
                "which does not exist or has expired. Ask the operator for another one, or log in "
                "with a key.",
                person=person,
                name=name,
            )
        return holder

    async def _find_session(self, token: str) -> SignedIn:
        gateway = self.gateway
        try:
            return await gateway.sessions.find(token)
        except Unauthorized:
            # It may have begun on another node a moment ago. Requests at once share one read. Who cannot look
            # must not send the browser to the login: that takes its cookie away.
            await gateway.refresh.look_up(_NOT_LOOKED_UP)
            return await gateway.sessions.find(token)

    @property
    def cookies(self) -> Cookies:
        # Not by server.public_url: with an https URL for the world, people inside still come over plain HTTP,
        # and their browsers would not send a Secure cookie back.
        return Cookies(self.root, self.gateway.sessions.installation, request.scheme == "https")

    @property
    def session_token(self) -> str:
        """The token in the session cookie of the current request; empty without one."""
        return self._cookie(SESSION)

    @property
    def visit(self) -> str:
        """The token in the cookie that protects forms without a session; empty without one."""
        return self._cookie(VISIT)

    def _cookie(self, name: str) -> str:
        # Browsers send cookies one by one over HTTP/2 and HTTP/3. Not every proxy joins them again (RFC 9113,
        # section 8.2.3).
        return self.cookies.get(name, "; ".join(request.headers.getlist("cookie")))

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
        if given != FORM:
            raise UnsupportedContentType.of(
                "form.content_type",
                "The content type must be {form}, not {given!r}.",
                form=FORM,
                given=given[:100],
            )
        # Kept: the form may be for another node.
        body = await read_body(request.headers, kept_body(), self._limit, current_exchange())
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise Invalid.of(
                "form.invalid",
                "The form is not valid: UTF-8, with at most {most} fields.",
                most=MOST_FIELDS,
            ) from None
        form = Form(pairs)
        if not is_form_token(form.get("form_token"), token):
            raise Forbidden.of(
                "form.expired",
                "The form has expired; nothing was changed. Go back, reload the page, and repeat.",
            )
        return form

    async def render_open(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page with a form that needs no session: a cookie of its own protects it.

        Another site must not be able to begin a session in somebody's browser, as somebody else.
        """
        visit, cookie = self.visit, None
        if not visit:
            visit = new_token()
            cookie = self.cookies.set(VISIT, visit)
        response = await self.render(template, status, form_token=form_token(visit), **values)
        if cookie is not None:
            response.headers.add("set-cookie", cookie)
        return response

    async def open_form(self) -> Form:
        """Read the form of such a page; see :meth:`read_form`."""
        if not self.visit:
            raise Forbidden(_NO_COOKIE)
        return await self.read_form(self.visit)

    def entered(self, token: str, after: str = "") -> Response:
        """Return the response that gives the browser its new session, and leads to a page."""
        response = self.redirect(after or "/")
        # The cookie of the visit stays: the form may be open in another tab, or be sent by a second click.
        response.headers.add("set-cookie", self.cookies.set(SESSION, token))
        return response

    async def form(self) -> Form:
        """Read the form of a view with a session; see :meth:`read_form`."""
        return await self.read_form(self.session_token)

    async def render(
        self, template: str, status: int = 200, *, error: HookgwError | None = None, **values: Any
    ) -> Response:
        """Return a page.

        Args:
            template: its name in ``templates``; it extends ``frame.html``.
            error: gives the page its status, and its messages to the template as ``alert``.
            values: for the template, beside ``site``, ``visitor``, ``version`` and the like.
        """
        if error is not None:
            status, values["alert"] = error.status, error.messages
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
            here=request.path.removeprefix(DASHBOARD_PATH).rstrip("/"),
            notice=NOTICES.get(request.args.get("done", "")),
            version=__version__,
            look=_look(),
            language=html_language(current_language()),
            address=page_address(status, is_open=who is None),
            **values,
        )
        headers = {"content-language": html_language(current_language()), "vary": f"accept-encoding, {VARY}"}
        body = text.encode()
        # Who guesses secrets by the length of compressed pages must make the browser ask for them. A session
        # has a cookie that is SameSite=Strict, so what another site asks for has no session.
        if request.accept_encodings["gzip"] > 0:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body, _COMPRESSION, mtime=0)
        return Response(body, status, headers, content_type=_HTML)

    async def fragment(self, template: str, **values: Any) -> str:
        """Return a part of a page, for the page itself and for its live updates."""
        # Not Quart's render_template: live updates are rendered outside of a request.
        found = self._templates.get_template(f"dashboard/{template}")
        return await found.render_async(root=self.root, **values)

    async def error_page(self, error: Exception) -> Response:
        """Return the page of an error, with its status. A bug is logged, and the page says no more of it."""
        status, _, headers = response_to(error, request.method, request.path)
        messages = error.messages if isinstance(error, HookgwError) else [BUG]
        response = await self.render("error.html", status, messages=messages, phrase=phrase_of(status))
        wait = headers.get("retry-after")
        if wait is not None:
            response.headers["retry-after"] = wait
            if self.gateway.node.is_shared and status == 503 and request.method == "GET":
                response.headers["refresh"] = wait  # an instance that moves is elsewhere in a moment
        response.headers.update(self._security)
        return response

    @property
    def kept_query(self) -> str:
        """The query of the current page with its ``?``, for forms that lead back to it with :meth:`back`."""
        kept = [one for one in request.args.items(multi=True) if one[0] != "done"]
        return f"?{urlencode(kept)}" if kept else ""

    def back(self, path: str, done: str) -> Response:
        """Redirect to the page of a form as its reader looks at it: filtered, sorted, or a later one."""
        return self.redirect(path, **{**request.args.to_dict(flat=False), "done": done})

    def redirect(self, path: str, /, **query: str | Sequence[str]) -> Response:
        """Return a redirect (303, so that the browser reads the next page) to a page of the dashboard.

        Args:
            path: below the dashboard, escaped.
            query: ``done`` names the notice that the page shows.
        """
        location = f"{self.root}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        return Response(b"", 303, {"location": location}, content_type=_HTML)

    def _to_login(self, form_page: str) -> Response:
        here = (form_page or request.path.removeprefix(DASHBOARD_PATH)) + self.kept_query
        after = {"next": here} if here not in ("", "/") else {}
        # After the login comes the page of the form. It says that the form was not saved.
        lost = {"ended": "true"} if request.method == "POST" else {}
        response = self.redirect("/login", **after, **lost)
        if self.session_token:
            response.headers.add("set-cookie", self.cookies.remove(SESSION))
        return response

    def _asset_url(self, name: str) -> str:
        return f"{self.root}/assets/{self._version}/{quote(name)}"

    @property
    def logo_url(self) -> str:
        logo = self.brand.logo
        return self._asset_url(logo) if logo in self._assets else logo

    async def _asset(self, version: str, name: str) -> Response:
        found = self._assets.get(name)
        if found is None:
            raise NotFound.of("page.no_file", "There is no file {name!r}.", name=name[:64])
        current_exchange().is_static = True
        # The version in the URL changes with the content, so a browser need never ask again. A page that
        # another version of hookgw has rendered gets what there is, once.
        is_current = version == self._version
        headers = {"cache-control": "public, max-age=31536000, immutable" if is_current else "no-store"}
        if found.content_type.startswith("image/"):  # the operator's logo, which is compressed, or small
            return Response(found.content, headers=headers, content_type=found.content_type)
        if name not in self._gzipped:
            self._gzipped[name] = await Gzipped.make(found.content, found.content_type)
        return self._gzipped[name].response(headers)

    async def _choose_language(self, language: str) -> Response:
        if language not in LANGUAGES:
            raise NotFound.of("page.no_language", "There is no language {name!r} here.", name=language[:64])
        response = self.redirect(local_path(request.args.get("next", "")) or "/")
        response.headers.add("set-cookie", choice_of(language))
        return response

    async def _missing(self, rest: str) -> Response:
        raise NotFound(NO_PAGE(name=rest[:64]))


async def _take_language() -> None:
    use_language(requested_language())


def _look() -> tuple[str, str]:
    """Return the theme and the density that the browser has chosen; empty for the usual ones."""
    theme, _, density = request.cookies.get("hookgw_look", "").partition(".")
    return theme if theme in ("light", "dark") else "", density if density == "compact" else ""


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

    def drop(self, name: str) -> None:
        self._pairs = [one for one in self._pairs if one[0] != name]

    def names(self) -> list[str]:
        return list(dict.fromkeys(key for key, _ in self._pairs))
