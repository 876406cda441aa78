"""The pages that plugins add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from urllib.parse import quote

from markupsafe import Markup
from quart import Response, request

from hookgw.core.access import check_right
from hookgw.kernel.errors import Invalid, NotFound, PluginFailed
from hookgw.kernel.language import gettext as _
from hookgw.plugins.contained_page import ContainedPage
from hookgw.site.site import NavEntry, Page, Site, visitor
from hookgw.web.needs import Need, Scope


class PluginPages(Page):
    """``/dashboard/plugins/<plugin>/<path>``, and the same below an instance."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.further_nav = self._nav
        # The right is the page's, and checked once that is found.
        for place, needs in (("", Need(Scope.EVERYTHING)), ("/instances/<instance>", Need(Scope.INSTANCE))):
            site.add(f"{place}/plugins/<plugin>/<path>", self.show, needs)
            site.add(f"{place}/plugins/<plugin>/<path>", self.submit, needs, "POST")

    def _nav(self) -> Iterator[NavEntry]:
        # Asked each time: an optional plugin may be switched off after the dashboard was made, by its routes.
        for page in self._gateway.hooks.dashboard_pages():
            if not page.of_instance:
                path = f"/plugins/{quote(page.plugin)}/{page.path}"
                yield NavEntry(page.title, path, page.right, is_global=True)

    async def show(self, plugin: str, path: str, instance: str | None = None) -> Response:
        return await self._render(self._find(plugin, path, instance), instance)

    def _find(self, plugin: str, path: str, instance: str | None) -> ContainedPage:
        if instance is not None:
            self._gateway.instances.get(instance)
        for page in self._gateway.hooks.dashboard_pages():
            if (page.plugin, page.path, page.of_instance) == (plugin, path, instance is not None):
                check_right(visitor().principal, page.right)
                return page
        raise NotFound.of(
            "plugin.no_page",
            "There is no page {path!r} of a plugin {plugin!r}.",
            path=path[:64],
            plugin=plugin[:64],
        )

    async def submit(self, plugin: str, path: str, instance: str | None = None) -> Response:
        """Give the plugin a form of its page, and show the page again."""
        page = self._find(plugin, path, instance)
        form = await self._site.form()
        fields = {name: form.text(name) for name in form.names() if name != "form_token"}
        timeout = self._gateway.settings.plugins.hook_timeout
        try:
            said = await page.submit(
                self._gateway.for_plugin(page.plugin), _with_instance(fields, instance), timeout
            )
        except Invalid as error:
            return await self._render(page, instance, fields, error=error)
        except PluginFailed:
            return await self._failed(page)
        return await self._render(page, instance, said=said)

    async def _render(
        self,
        page: ContainedPage,
        instance: str | None,
        refused: Mapping[str, str] = MappingProxyType({}),
        *,
        said: str | None = None,
        error: Invalid | None = None,
    ) -> Response:
        timeout = self._gateway.settings.plugins.hook_timeout
        query = _with_instance({**request.args.to_dict(), **refused}, instance)
        try:
            content = await page.render(self._gateway.for_plugin(page.plugin), query, timeout)
        except PluginFailed:
            return await self._failed(page)
        return await self._site.render(
            "plugin_page.html",
            page=page,
            instance=instance,
            content=content,
            is_markup=isinstance(content, Markup),
            said=said,
            error=error,
        )

    async def _failed(self, page: ContainedPage) -> Response:
        # Not the exception: it may hold data of tenants.
        return await self._site.render(
            "error.html",
            500,
            messages=[_("The plugin {name} failed; see hookgw's log.", name=repr(page.plugin))],
            phrase=page.title,
        )


def _with_instance(fields: dict[str, str], instance: str | None) -> dict[str, str]:
    """Return the fields for a plugin, with the checked instance among them."""
    return fields if instance is None else {**fields, "instance": instance}
