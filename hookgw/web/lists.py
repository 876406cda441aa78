"""Ends every list after 2 MiB (some arrays later), with a cursor for the rest.

A tenant decides how long the entries of its lists are, and a slow client how long they stay in memory.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
import trio
from quart import Response, request

from hookgw.kernel.base64url import decode_base64url
from hookgw.kernel.errors import Invalid
from hookgw.records.fleet import SILENT_NODES
from hookgw.records.sentences import CURSOR_OF_PAGE
from hookgw.web.openapi.describe import filter_of
from hookgw.web.request_body import json_response
from hookgw.web.server.response_memory import LIST

T = TypeVar("T")

CURSOR = "hookgw-cursor"
"""The header with the cursor of a list whose body is an array, as clients of other gateways expect it."""
CURSOR_QUERY = filter_of("cursor", f"The `{CURSOR}` of the previous page.", {"type": "string"})
CURSOR_HEADER = {CURSOR: "The cursor of the next page, if the list ended early."}
SILENT_HEADER = {SILENT_NODES: "The nodes of a fleet that did not answer, separated by commas."}
"""What `describes` declares for a list that may end early, and for one that may lack nodes."""
_AROUND = 1024
"""Bytes of a page beside its entries."""
_AT_ONCE = 64 * 1024
"""Bytes that are encoded at once, so that other requests wait only briefly."""


class ShownList:
    """The shown entries of a list: at least one, and no more than fit. ``entries`` are encoded.

    Args:
        most: the bytes of the list; :data:`LIST` if it is ``None``.
    """

    def __init__(self, most: int | None = None) -> None:
        self.entries: list[Any] = []
        self._most = LIST if most is None else most
        self._size = self._paused = _AROUND

    async def add(self, entries: Iterable[T], present: Callable[[T], Any]) -> int:
        """Add entries until one does not fit; return how many of them fit. ``present`` shows an entry."""
        before = len(self.entries)
        for entry in entries:
            encoded = msgspec.json.encode(present(entry))
            self._size += len(encoded) + 1
            if self.entries and self._size > self._most:
                break
            self.entries.append(msgspec.Raw(encoded))
            if self._size - self._paused >= _AT_ONCE:
                self._paused = self._size
                await trio.lowlevel.checkpoint()
        return len(self.entries) - before


async def first_of(entries: Iterable[T], present: Callable[[T], Any], most: int | None = None) -> list[Any]:
    """Return as many of the first entries as a response may have, as :class:`ShownList` encodes them."""
    shown = ShownList(most)
    await shown.add(entries, present)
    return shown.entries


async def array(
    entries: Sequence[T],
    place: Callable[[T], tuple[str | float, ...]],
    present: Callable[[T], Any],
    most: int | None = None,
) -> Response:
    """Return a list as an array. Its cursor is in a header, and the query's cursor is continued.

    Args:
        place: returns an entry's sort key: the list is sorted by it, and it is unique.
        present: shows an entry.
        most: as of :class:`ShownList`; the caller has reserved as many.

    Raises:
        Invalid: the cursor is not one of such a list.
    """
    given = request.args.get("cursor")
    after = read_cursor(given) if given else None
    found, begun = sorted(entries, key=place), 0
    try:
        if after is not None:
            begun = bisect_right(found, after, key=lambda one: [*place(one)])
    except TypeError:
        raise wrong_cursor() from None
    shown = await first_of(islice(found, begun, None), present, most)
    response = json_response(shown)
    if (end := begun + len(shown)) < len(found):
        response.headers[CURSOR] = make_cursor(place(found[end - 1]))
    return response


def make_cursor(place: Sequence[str | float]) -> str:
    """Return the cursor for the entries after a place: right also if entries come and go meanwhile."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str) -> list[str | float]:
    """Return the place of a cursor; raise ``Invalid`` if it is not a cursor."""
    try:
        return msgspec.json.decode(decode_base64url(cursor), type=list[str | float])
    except (ValueError, msgspec.MsgspecError):
        raise wrong_cursor() from None


def wrong_cursor() -> Invalid:
    return Invalid(CURSOR_OF_PAGE)


def name_silent(response: Response, nodes: Sequence[str]) -> Response:
    if nodes:
        response.headers[SILENT_NODES] = ", ".join(nodes)
    return response
