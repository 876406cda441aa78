"""A plugin's page of the dashboard, called through the boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from hookgw.kernel.errors import Invalid, NotFound
from hookgw.plugins.boundary import Boundary
from hookgw.plugins.hook_implementation import HookImplementation
from hookgw.plugins.results import wrong_type
from hookgw.records.api_keys import Right
from hookgw.records.dashboard_pages import DashboardPage

if TYPE_CHECKING:
    from hookgw.plugins.gateway_protocol import PluginGateway


class ContainedPage:
    """A :class:`~hookgw.records.dashboard_pages.DashboardPage`, checked and contained."""

    def __init__(self, page: DashboardPage, plugin: str, boundary: Boundary) -> None:
        self.plugin = plugin
        self.title = page.title
        self.path = page.path
        self.of_instance = page.of_instance
        self.right = page.needs or (Right.CONNECT if page.of_instance else Right.OPERATE)
        self.is_form = page.submit is not None
        self._boundary = boundary
        self._call = HookImplementation(
            plugin=plugin, hook=f"hookgw_dashboard_pages.{page.path}", call=page.render
        )
        self._submit: HookImplementation | None = None
        if page.submit is not None:
            self._submit = HookImplementation(plugin=plugin, hook=self._call.hook, call=page.submit)

    async def render(
        self,
        gateway: PluginGateway,
        query: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109 -- the plugin's limit, named in its failure
    ) -> str:
        """Return the content of the page: ``Markup`` if it is HTML, and otherwise a plain ``str``.

        Raises:
            PluginFailed: it raised, took longer than ``timeout`` seconds, or returned no text.
        """
        content: str = await self._boundary.run(
            self._call, gateway, dict(query), timeout=timeout, check=_check_content
        )
        return content

    async def submit(
        self,
        gateway: PluginGateway,
        form: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109 -- the plugin's limit, named in its failure
    ) -> str | None:
        """Pass the fields of the form to the plugin. Return its sentence, or ``None``.

        Raises:
            NotFound: the page takes no form.
            Invalid: the plugin refuses the fields.
            PluginFailed: it raised anything else, took longer than ``timeout`` seconds, or returned no text.
        """
        if self._submit is None:
            raise NotFound.of("plugin.page_without_form", "This page takes no form.")
        said: str | None = await self._boundary.run(
            self._submit, gateway, dict(form), timeout=timeout, check=_check_notice, passes=(Invalid,)
        )
        return said


def _check_notice(answer: object) -> str | None:
    return None if answer is None else str.__str__(_check_content(answer))


def _check_content(answer: object) -> str:
    if not isinstance(answer, str):
        raise wrong_type(answer, "a str or a Markup")
    # Exact types: a subclass could run the plugin's code outside of the boundary when the template asks for
    # its text.
    text = str.__str__(answer)
    text.encode()  # a lone surrogate could not be sent
    # The plugin says that this is HTML, and plugins are the operator's.
    return Markup(text) if isinstance(answer, Markup) else text  # noqa: S704
