"""The pages that plugins add."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from markupsafe import Markup
from quart import Response, request

from hookgw.dashboard.site import NavEntry, Site, visitor
from hookgw.models.errors import Forbidden, NotFound, PluginFailed


class PluginPages:
    """``/dashboard/plugins/<plugin>/<path>``.

    Args:
        site: the dashboard.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._gateway = site.gateway
        site.further_nav = self._nav
        site.add("/plugins/<plugin>/<path>", self.show)

    def _nav(self) -> Iterator[NavEntry]:
        # Asked each time: an optional plugin may be switched off after the dashboard was made, by its routes.
        for page in self._gateway.hooks.dashboard_pages():
            yield NavEntry(page.title, f"/plugins/{quote(page.plugin)}/{page.path}", is_global=True)

    async def show(self, plugin: str, path: str) -> Response:
        """Show the page of a plugin."""
        if not visitor().principal.is_global:
            raise Forbidden("This page needs a global key.")
        for page in self._gateway.hooks.dashboard_pages():
            if (page.plugin, page.path) == (plugin, path):
                break
        else:
            raise NotFound(f"There is no page {path[:64]!r} of a plugin {plugin[:64]!r}.")
        timeout = self._gateway.settings.plugins.hook_timeout
        try:
            content = await page.render(self._gateway, request.args.to_dict(), timeout)
        except PluginFailed:
            # Not the exception: it may hold data of tenants.
            return await self._site.render(
                "error.html",
                500,
                messages=[f"The plugin {plugin!r} failed; see hookgw's log."],
                phrase=page.title,
            )
        return await self._site.render(
            "plugin_page.html", page=page, content=content, is_markup=isinstance(content, Markup)
        )
