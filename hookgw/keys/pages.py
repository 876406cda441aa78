"""The keys of an instance, on its page."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol
from urllib.parse import quote

from quart import Response

from hookgw.kernel.errors import HookgwError
from hookgw.keys.fields import FIELDS, parse_key_request
from hookgw.records.api_keys import Key, Right
from hookgw.records.instances import check_name
from hookgw.site.field_form import from_form
from hookgw.site.site import Form, Site, visitor


class ShowInstance(Protocol):
    """Shows the page of an instance again; see ``InstancePage.page``."""

    def __call__(
        self, instance: str, *, form: Form | None = None, at: str = "", error: HookgwError | None = None
    ) -> Awaitable[Response]: ...


class KeyForms:
    """Creates and revokes keys of an instance; ``show`` shows the page of the instance again."""

    def __init__(self, site: Site, show: ShowInstance) -> None:
        self._site = site
        self._gateway = site.gateway
        self._show = show
        path, page = "/instances/<instance>/keys", "/instances/{instance}"
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
            asked, _ = parse_key_request(body, now=now, is_of_instance=True)
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
            path=f"/instances/{quote(instance)}",
            key=key,
        )

    async def revoke_key(self, instance: str, key_name: str) -> Response:
        await self._site.form()
        try:
            await self._gateway.keys.revoke(instance, key_name, by=visitor().holder)
        except HookgwError as error:
            return await self._show(instance, at="keys", error=error)
        return self._site.redirect(f"/instances/{quote(instance)}", done="revoked")
