"""The keys of an instance, on its page; and the page of all other keys."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from quart import Response

from hookgw.auth.keyring import CONFIGURED_KEY
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.keys.fields import FIELDS, parse_key_request
from hookgw.records.api_keys import MEANINGS, Key, Right
from hookgw.records.instances import check_name
from hookgw.records.tags import tags_from
from hookgw.site.field_form import from_form, inputs_of
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Form, NavEntry, Page, Site, visitor
from hookgw.web.needs import within_reach


class ShowInstance(Protocol):
    """Shows a tab of an instance again; see ``InstancePage.page``."""

    def __call__(
        self, instance: str, *, form: Form | None = None, at: str = "", error: HookgwError | None = None
    ) -> Awaitable[Response]: ...


class KeyForms(Page):
    """Creates and revokes keys of an instance; ``show`` shows the page of the instance again."""

    def __init__(self, site: Site, show: ShowInstance) -> None:
        super().__init__(site)
        self._show = show
        path, page = "/instances/<instance>/keys", "/instances/{instance}/keys"
        site.add(f"{path}/create", self.create_key, Right.KEYS, "POST", page=page)
        site.add(f"{path}/<key_name>/revoke", self.revoke_key, Right.KEYS, "POST", page=page)

    def rows(self, instance: str) -> list[tuple[Key, bool, bool]]:
        """Return the keys, the oldest first; whether each has expired; whether it is the session's."""
        now, own = self._gateway.clock.steady(), visitor().holder.key.hash
        return [
            (key, key.is_expired(now), key.hash == own)
            for key in self._gateway.keys.list(instance, seen_by=visitor().holder)
        ]

    async def create_key(self, instance: str) -> Response:
        form = await self._site.form()
        now = self._gateway.clock.steady()
        try:
            body = {"name": form.get("key_name")} | from_form(FIELDS, form)
            asked = parse_key_request(body, now=now, is_of_instance=True)
            check_name(asked["name"], "The name of the key")
            made, key = await self._gateway.keys.create(instance, **asked, maker=visitor().holder)
        except HookgwError as error:
            return await self._show(instance, form=form, at="keys", error=error)
        # Not a redirect: the key is shown in this response, and nowhere else.
        return await self._site.render(
            "key_created.html",
            201,
            name=made.name,
            instance=instance,
            path=instance_path(instance, "keys"),
            key=key,
        )

    async def revoke_key(self, instance: str, key_name: str) -> Response:
        await self._site.form()
        try:
            await self._gateway.keys.revoke(instance, key_name, by=visitor().holder)
        except HookgwError as error:
            return await self._show(instance, at="keys", error=error)
        return self._site.redirect(instance_path(instance, "keys"), done="revoked")


MOST_SHOWN = 200
"""Keys on the page."""


class Row(NamedTuple):
    """A key in the list; ``is_own`` if the session began with it."""

    key: Key
    reach: str
    rights: str
    is_expired: bool
    is_own: bool


class KeysPage(Page):
    """``/dashboard/keys``: the keys of no instance."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.nav.append(NavEntry(N_("Keys"), "/keys", Right.KEYS))
        needs = within_reach(Right.KEYS)
        site.add("/keys", self._page, needs)
        site.add("/keys/create", self.make_key, needs, "POST", page="/keys")
        site.add("/keys/<key_name>/revoke", self.revoke, needs, "POST", page="/keys")

    async def _page(self, form: Form | None = None, error: HookgwError | None = None) -> Response:
        found = self._gateway.keys.list(None, seen_by=visitor().holder)
        now, own = self._gateway.clock.steady(), visitor().holder.key.hash
        rows = [
            Row(
                key,
                self._reach(key),
                ", ".join(key.principal(None).rights.words),
                key.is_expired(now),
                key.hash == own,
            )
            for key in found[:MOST_SHOWN]
        ]
        return await self._site.render(
            "keys.html",
            rows=rows,
            left_out=len(found) - len(rows),
            configured=CONFIGURED_KEY,
            inputs=[*inputs_of(FIELDS)],
            rights=[(right, MEANINGS[right]) for right in Right if visitor().has(right)],
            form=form,
            error=error,
        )

    def _reach(self, key: Key) -> str:
        names = self._gateway.keys.names_of(key.reach)
        words = [f"{name}={value}" for name, value in key.reach.tags] if key.reach else []
        if names is not None:
            words.append(", ".join(names[:10]) or _("no instance that exists"))
            if len(names) > 10:
                words.append(_("and {n} more", n=len(names) - 10))
        return " ".join(words) or _("everything")

    async def make_key(self) -> Response:
        form = await self._site.form()
        now = self._gateway.clock.steady()
        try:
            label = form.get("label")
            tags = tags_from(form.get("tags").split(), "The tag")
            words = [f"{one}:{label}" if one == Right.RECEIVE and label else one for one in form.all("can")]
            given = {"tags": tags, "instances": form.get("instances").split(), "rights": words}
            body = {
                "name": form.get("key_name"),
                **{name: value for name, value in given.items() if value},
                **from_form(FIELDS, form),
            }
            asked = parse_key_request(body, now=now)
            check_name(asked["name"], "The name of the key")
            made, key = await self._gateway.keys.create(None, **asked, maker=visitor().holder)
        except HookgwError as error:
            return await self._page(form, error)
        # Not a redirect: the key is shown in this response, and nowhere else.
        return await self._site.render(
            "key_created.html", 201, name=made.name, reach=self._reach(made), path="/keys", key=key
        )

    async def revoke(self, key_name: str) -> Response:
        await self._site.form()
        try:
            await self._gateway.keys.revoke(None, key_name, by=visitor().holder)
        except HookgwError as error:
            return await self._page(error=error)
        return self._site.redirect("/keys", done="revoked")
