"""The page behind a portal link, and the page that makes one."""

from __future__ import annotations

import re
from typing import Any

from quart import Response

from hookgw.core.access import names_within
from hookgw.kernel.errors import Forbidden, HookgwError
from hookgw.keys.portal_fields import DEFAULT_RIGHTS, GIVEN, parse_portal_request
from hookgw.keys.portal_url import portal_url
from hookgw.records.api_keys import MEANINGS, Right
from hookgw.records.tags import tags_from
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.web.needs import OPEN, within_reach
from hookgw.web.request_body import current_exchange

_AFTER_TOKEN = re.compile(r"[^A-Za-z0-9_-].*", re.DOTALL)


class PortalPages(Page):
    """``/dashboard/portal``, which opens links, and ``/dashboard/portal-link``, which makes them."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/portal", self.show, OPEN)
        site.add("/portal", self.open, OPEN, "POST")
        site.add("/portal-link", self._page, within_reach(Right.KEYS))
        site.add("/portal-link", self.make, within_reach(Right.KEYS), "POST")

    async def show(self) -> Response:
        """Show the page of every link.

        It knows no link: the token is in the browser alone, until the form sends it. So whatever looks at the
        URL, as chats do to show a preview, uses no link up, and learns nothing.
        """
        return await self._site.render_open("portal.html")

    async def open(self) -> Response:
        form = await self._site.open_form()
        # People without scripts paste the whole link, perhaps with the full stop of its sentence.
        token = _AFTER_TOKEN.sub("", form.get("link").rpartition("#")[2])
        address = current_exchange().client_host
        gateway = self._gateway
        try:
            # As for keys, before anything is looked up.
            gateway.authenticator.check_address(address)
            try:
                begun = await gateway.portal.open(
                    token,
                    browser=self._site.visit,
                    address=address,
                    person=self._site.person,
                    instead_of=self._site.session_token,
                )
            except Forbidden:
                gateway.authenticator.note_failure(address)
                raise
        except HookgwError as error:
            return await self._site.render_open("portal.html", error.status, alert=error.messages)
        return self._site.entered(begun, await self._first_page(begun))

    async def _first_page(self, token: str) -> str:
        """Return the path of the page with which a session begins."""
        signed_in = await self._gateway.sessions.find(token)
        portal = signed_in.session.portal
        if portal is None or portal.opens != "code":
            return "/"
        names = names_within(self._gateway.registry, signed_in.holder.principal)
        if names is None or len(names) != 1:
            return "/codes"
        return instance_path(names[0], "connection")  # connects it, too, if it shows no code yet

    async def make(self) -> Response:
        form = await self._site.form()
        try:
            asked = parse_portal_request(_body(form))
            url = portal_url(self._gateway.settings)
            token, ends_at = await self._gateway.portal.make(visitor().holder, asked)
        except HookgwError as error:
            return await self._page(form, error)
        # Not a redirect: the link is shown in this response, and nowhere else.
        return await self._page(link=f"{url}#{token}", ends_at=ends_at, status=201)

    async def _page(
        self, form: Form | None = None, error: HookgwError | None = None, *, status: int = 200, **values: Any
    ) -> Response:
        rights = visitor().principal.rights
        ticked = DEFAULT_RIGHTS if form is None else form.all("right")
        return await self._site.render(
            "portal_link.html",
            status,
            error=error,
            rights=[(str(one), MEANINGS[one], one in ticked) for one in GIVEN if rights.has(one)],
            entered={
                name: form.text(name) for name in ("tags", "instances", "expires", "return_url", "opens")
            }
            if form
            else {},
            **values,
        )


def _body(form: Form) -> dict[str, Any]:
    """Return a form as the body of ``/portal/link``."""
    body: dict[str, Any] = {"rights": form.all("right") or None}
    if tags := form.get("tags").split():
        body["tags"] = tags_from(tags, "Tags")
    if instances := form.get("instances").split():
        body["instances"] = instances
    named = {"expires": "expires", "returnUrl": "return_url", "opens": "opens"}
    return body | {name: form.get(field) or None for name, field in named.items()}
