"""The pages that plugins add to the dashboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from hookgw.records.api_keys import Right


class DashboardPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a plugin adds to the dashboard: for global keys, or one for each instance.

    Attributes:
        title: its heading, and its link in the navigation.
        path: its last part of ``/dashboard/plugins/<plugin>/<path>``: 1 to 64 letters, digits and ``-``.
        render: ``async render(gateway, query)`` returns what is below the heading, each time the page is
            opened. ``gateway`` is the :class:`~hookgw.PluginGateway`, and ``query`` has the parameters of the
            page's URL. A plain ``str`` is shown as it is; ``markupsafe.Markup`` is HTML.
        of_instance: whether each instance has such a page, for its own keys and global ones. Its link is on
            the page of the instance, and ``query["instance"]`` is the instance's name, whatever the URL says.
        submit: ``async submit(gateway, form)`` makes the page a form: it gets the fields of the HTML that
            ``render`` returned, with ``form["instance"]`` as for ``render``. It returns a sentence that the
            page shows, or ``None``. It may raise :class:`~hookgw.Invalid`; the page shows its sentences, and
            ``query`` has the refused fields, so that nobody types them again.
        needs: the right that a key needs for the page and its form: by default ``operate``, and ``connect``
            if each instance has such a page.
    """

    title: str
    path: str
    render: Callable[[Any, Mapping[str, str]], Awaitable[str]]
    of_instance: bool = False
    submit: Callable[[Any, Mapping[str, str]], Awaitable[str | None]] | None = None
    needs: Right | None = None
