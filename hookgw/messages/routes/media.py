"""``/media``: inbound files, for readers with a link."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

from quart import Response, request

from hookgw.instances.connectors.media_download import MediaDownload
from hookgw.kernel.errors import HookgwError
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import NotJson, describes
from hookgw.web.request_body import current_exchange
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.exchange import BrokenOff

_FILE = NotJson("*/*", "The file, with the content type that the network says.")
# A stranger chose the file and its type. A browser must save it, and never run it as a page of this site.
_SAFE = {
    "cache-control": "private",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
}


class MediaRoutes(RouteGroup):
    @route("GET", "/media/<instance>/<token>")
    @describes("Media", OPEN, {200: _FILE}, errors=(403, 404, 410, 413, 429, 501, 502, 503))
    async def download(self, instance: str, token: str) -> Response:
        """Download an inbound file, with a link from an event.

        The link needs no key. The file is streamed from the network; parts of it (ranges) cannot be
        requested. If it cannot be completed, the connection is closed before its end.
        """
        download = self._gateway.media.open(instance, token)
        exchange = current_exchange()
        # Whatever becomes of the request from here on, the connector's call ends with it.
        exchange.call_at_end(download.leave)
        head = await download.head()
        headers = {
            **_SAFE,
            "content-type": head.mimetype,
            "content-disposition": content_disposition(head.file_name),
        }
        if request.method == "HEAD":
            response = Response(b"", headers=headers)
        else:
            response = Response(_content(download), headers=headers)
            response.timeout = None  # MediaDownload has a deadline that grows with what was read
        response.headers.pop("content-length", None)
        if head.size is not None:
            response.headers["content-length"] = str(head.size)
        return response


async def _content(download: MediaDownload) -> AsyncIterator[bytes]:
    try:
        async for piece in download.chunks():
            yield piece
    except HookgwError as error:
        raise BrokenOff from error


def content_disposition(file_name: str) -> str:
    """Return the header that makes browsers save a file (RFC 6266).

    Args:
        file_name: as the network, and therefore a stranger, says it; empty if it is not known.
    """
    # No separators of paths, and nothing invisible: text that runs backwards hides the real extension.
    clean = "".join("_" if c in '/\\:*?"<>|' or not c.isprintable() else c for c in file_name[:255])
    clean = clean.strip(" .")
    if not clean:
        return "attachment"
    plain = "".join(c if c.isascii() and c not in "%;" else "_" for c in clean)
    if plain == clean:
        return f'attachment; filename="{plain}"'
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(clean, safe='')}"
