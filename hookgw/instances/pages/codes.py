"""The codes that wait to be scanned, one after the other."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache, partial
from urllib.parse import urlencode

import segno
from quart import Response, request

from hookgw.core.access import names_within
from hookgw.records.api_keys import Principal, Right
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Page, Site, visitor
from hookgw.web.needs import within_reach

MOST_NAMED = 50
"""Accounts in the list beside the code."""


# Making one takes 20 ms, and a page that shows it is rendered at each change of its accounts.
@lru_cache(maxsize=16)
def picture_of(code: str) -> str:
    """Return the picture of a code, as a ``data:`` URL."""
    # White around and below the code, whatever the page's colours: scanners need the contrast.
    picture: str = segno.make(code, micro=False).svg_data_uri(scale=6, border=4, dark="#000", light="#fff")
    return picture


class CodesPage(Page):
    """``/dashboard/codes``."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/codes", self.show, within_reach(Right.CONNECT))
        site.add("/live/codes", self.live, within_reach(Right.CONNECT))

    async def show(self) -> Response:
        principal, at = visitor().principal, _asked()
        now, shown = await self._render(principal, at)
        # Of the code that is shown: another one must not take its place while somebody scans it.
        query = urlencode({"at": at or shown})
        return await self._site.render("codes.html", now=now, live=f"/live/codes?{query}")

    async def live(self) -> Response:
        principal, at = visitor().principal, _asked()
        render = partial(self._now, principal, at)
        return self._streams.open(("codes", principal, at), render)

    async def _now(self, principal: Principal, at: str) -> str:
        return (await self._render(principal, at))[0]

    async def _render(self, principal: Principal, at: str) -> tuple[str, str]:
        """Return the part that changes, and the instance with the code in it.

        Args:
            at: the instance whose code to show; if it does not wait any more, the next one.
        """
        gateway = self._gateway
        reached = names_within(gateway.registry, principal)
        found = await gateway.views.codes(reached)
        names = [one.instance for one in found.codes]
        place = shown = None
        if names:
            place = names.index(at) if at in names else bisect_right(names, at) % len(names)
            shown = found.codes[place]
        # The name is the visitor's own word: of what is out of their reach, nothing is said.
        former = gateway.instances.find(at) if reached is None or at in reached else None
        state = None
        if former is not None and at not in names:
            state = (await gateway.views.connections([at])).of(former).state
        text = await self._site.fragment(
            "codes_now.html",
            shown=shown,
            picture=None if shown is None else picture_of(shown.code),
            number=0 if place is None else place + 1,
            names=names,
            named=names[:MOST_NAMED],
            before=None if place is None else _address(names[place - 1]),
            after=None if place is None else _address(names[(place + 1) % len(names)]),
            path="" if shown is None else instance_path(shown.instance, "connection"),
            former=at,
            state=state,
            silent=found.silent,
        )
        return text, "" if shown is None else shown.instance


def _asked() -> str:
    return request.args.get("at", "")[:128]


def _address(name: str) -> str:
    return f"/codes?{urlencode({'at': name})}"
