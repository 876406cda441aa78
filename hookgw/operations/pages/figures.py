"""The page of figures: those of the gateway, or of the instances with a tag."""

from __future__ import annotations

from itertools import islice
from urllib.parse import urlencode

from quart import Response, request

from hookgw.core.access import NOT_GLOBAL, within
from hookgw.kernel.errors import ForeignKey, Invalid
from hookgw.records.api_keys import Principal, Reach, Right
from hookgw.records.tags import parse_tag, tag_texts
from hookgw.site.figure_part import asked_span, figure_part
from hookgw.site.site import Site, visitor
from hookgw.web.needs import within_reach

LONGEST = 200
"""Characters of a tag with its value."""
MOST_LOOKED = 2_000
"""Instances that are looked at for the tags that one can choose,"""
MOST_TAGS = 500
"""and tags."""


class FiguresPage:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._gateway = site.gateway
        site.add("/figures", self.show, within_reach(Right.READ))

    async def show(self) -> Response:
        principal, tag = visitor().principal, request.args.get("tag", "").strip()[:LONGEST]
        charts, error = "", None
        try:
            charts = await self._charts(principal, tag)
        except (ForeignKey, Invalid) as wrong:
            error = wrong
        some = islice(within(self._gateway.registry, principal), MOST_LOOKED)
        tags = sorted({text for one in some for text in tag_texts(one.tags)})
        return await self._site.render(
            "figures_page.html",
            200 if error is None else error.status,
            tag=tag,
            tags=tags[:MOST_TAGS],
            charts=charts,
            alert=error.messages if error else None,
        )

    async def _charts(self, principal: Principal, tag: str) -> str:
        figures, span = self._gateway.figures, asked_span()
        if not tag:
            if not principal.is_global:
                raise ForeignKey(NOT_GLOBAL)
            return await figure_part(
                self._site, await figures.of_gateway(span), here="/figures", target="/deliveries"
            )
        name, value = parse_tag(tag)
        # Also what its former instances had: for that, the key must reach all that carry it.
        if principal.instance is not None or not principal.reach.covers(Reach(tags=((name, value),))):
            raise ForeignKey.of(
                "figures.tag_out_of_reach", "This key does not reach every instance with {tag}.", tag=tag
            )
        return await figure_part(
            self._site,
            await figures.of_tag(name, value, span),
            here=f"/figures?{urlencode({'tag': tag})}",
            target=f"/deliveries?{urlencode({'q': f'tag:{tag}'})}",
        )
