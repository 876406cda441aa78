"""The page of figures: of all that a visitor reaches, or of the instances with a tag."""

from __future__ import annotations

from itertools import islice
from urllib.parse import urlencode

from quart import Response, request

from hookgw.core.access import within
from hookgw.kernel.errors import Invalid
from hookgw.records.api_keys import Right
from hookgw.records.tags import parse_tags, tag_texts
from hookgw.site.figure_part import asked_span, figure_part
from hookgw.site.site import Page, Site, visitor
from hookgw.web.needs import within_reach

LONGEST = 200
"""Characters of a tag with its value."""
MOST_LOOKED = 2_000
"""Instances that are looked at for the tags that one can choose,"""
MOST_TAGS = 500
"""and tags."""


class FiguresPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/figures", self.show, within_reach(Right.READ))

    async def show(self) -> Response:
        principal, tag = visitor().principal, request.args.get("tag", "").strip()[:LONGEST]
        charts, error = "", None
        try:
            tags = parse_tags([tag])
            series = await self._gateway.figures.within(principal, tags, asked_span())
        except Invalid as wrong:
            error = wrong
        else:
            charts = await figure_part(
                self._site,
                series,
                here=f"/figures?{urlencode({'tag': tag})}" if tag else "/figures",
                target=f"/deliveries?{urlencode({'q': f'tag:{tag}'})}" if tag else "/deliveries",
                deliveries="/deliveries",
                search=f"tag:{tag}" if tag else "",
            )
        some = islice(within(self._gateway.registry, principal), MOST_LOOKED)
        known = sorted({text for one in some for text in tag_texts(one.tags)})
        return await self._site.render(
            "figures_page.html",
            tag=tag,
            tags=known[:MOST_TAGS],
            charts=charts,
            error=error,
        )
