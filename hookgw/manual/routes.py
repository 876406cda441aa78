"""``/docs`` and below: the manual of this version. Nothing of it is loaded before somebody asks for it."""

from __future__ import annotations

import hashlib
import html
import posixpath
from collections.abc import Callable, Mapping

import trio
from quart import Response, request

from hookgw.config.settings import ServerSettings
from hookgw.kernel.errors import NotFound
from hookgw.kernel.language import html_language, in_language, translated
from hookgw.kernel.recent import Recent
from hookgw.manual.archive import Archive
from hookgw.manual.contents import REFERENCE
from hookgw.manual.curl import ADDRESS
from hookgw.manual.examples import shown_example
from hookgw.manual.packaged import open_manual
from hookgw.manual.shell import filled
from hookgw.web.gzipped import Gzipped
from hookgw.web.languages import VARY, requested_language, script_texts
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import NotJson, describes
from hookgw.web.openapi.routes import OpenApiRoutes
from hookgw.web.pages import manual_headers, page_headers
from hookgw.web.route_group import RouteGroup, route

_TAG = "Operation"
_HTML = "text/html; charset=utf-8"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_FOLDER = "docs/"
_GONE = """<!doctype html>
<html lang="en"><title>hookgw</title><h1>The manual is gone from this machine</h1>
<p>hookgw was upgraded or removed while it ran. Restart it.</p>
<p><a href="docs/http">Every call of the HTTP interface</a></p></html>
"""
_KEPT = 64
"""Pages and files that are kept ready to send: a megabyte at most."""
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
"""The URL of an asset has the version of its content, so a browser need never ask again."""


class ManualRoutes(RouteGroup):
    """The handlers, for one application.

    Args:
        reference: what ``/docs/http`` shows. The manual itself may be gone from under a running process.
    """

    def __init__(self, server: ServerSettings, reference: OpenApiRoutes) -> None:
        self._server = server
        self._reference = reference
        self._archive: Archive | None = None
        self._opening = trio.Lock()
        self._ready: Recent[tuple[str, str, str], Gzipped] = Recent(_KEPT)
        self._script_texts: Callable[[], str] | None = None

    @route("GET", "/docs")
    @describes(_TAG, OPEN, {200: NotJson("text/html", "An HTML page."), 304: None})
    async def home(self) -> Response:
        """Return the first page of the manual."""
        return await self._shown("docs") or Response(_GONE, headers=page_headers(), content_type=_HTML)

    @route("GET", f"/docs/{REFERENCE}")
    @describes(_TAG, OPEN, {200: NotJson("text/html", "An HTML page."), 304: None})
    async def reference(self) -> Response:
        """Return the list of all calls, as an HTML page."""
        return await self._reference_page("")

    @route("GET", "/docs/<path:page>")
    @describes(
        _TAG,
        OPEN,
        {200: NotJson("*/*", "An HTML page, or a file that pages load."), 304: None},
        errors=(404,),
    )
    async def page(self, page: str) -> Response:
        """Return another page of the manual, or a file that its pages load."""
        if page.startswith(f"{REFERENCE}/"):
            return await self._reference_page(page.removeprefix(f"{REFERENCE}/"))
        response = await self._shown(_FOLDER + page)
        if response is None:
            raise NotFound.of(
                "manual.no_page", "The manual has no page {page!r}. It begins at /docs.", page=page[:64]
            )
        return response

    async def _reference_page(self, name: str) -> Response:
        return await self._reference.page(
            name, self._address(), await self._assets(), manual_headers(), shown_example
        )

    async def _shown(self, name: str) -> Response | None:
        archive = await self._opened()
        if archive is None or name not in archive.names:
            return None
        content_type = _TYPES.get(posixpath.splitext(name)[1])
        address = "" if content_type else self._address()
        language = "" if content_type else requested_language()
        ready = self._ready.get((name, address, language))
        if ready is None:
            body = archive.read(name)
            if address:
                body = _with_address(self._in_language(body, language, archive), address)
            ready = await Gzipped.make(body, content_type or _HTML)
            self._ready.put((name, address, language), ready)
        if content_type:
            return ready.response(_IMMUTABLE)
        vary = f"accept-encoding, {VARY}"
        return ready.response({**manual_headers(), "content-language": html_language(language)}, vary)

    def _in_language(self, page: bytes, language: str, archive: Archive) -> bytes:
        if self._script_texts is None:
            scripts = [archive.read(name) for name in archive.names if name.endswith(".js")]
            self._script_texts = script_texts(scripts)
        with in_language(language):
            texts = self._script_texts()
            return filled(page.decode(), html_language(language), texts, translated).encode()

    def _address(self) -> str:
        """Return the gateway's address for examples. It is nothing that the client has sent."""
        at = request.scope["server"]
        if self._server.public_url or at is None:
            return self._server.public_url or ADDRESS + self._server.base_path
        host = f"[{at[0]}]" if ":" in at[0] else at[0]
        return f"{request.scheme}://{host}:{at[1]}{self._server.base_path}"

    async def _assets(self) -> Mapping[str, str]:
        """Return the URLs of what pages load, relative to those in the folder, by name."""
        archive = await self._opened()
        if archive is None:
            return {}
        found = {}
        for name in archive.names:
            if name.startswith(f"{_FOLDER}assets/"):
                version = hashlib.sha256(archive.read(name)).hexdigest()[:12]
                found[posixpath.basename(name)] = f"{name.removeprefix(_FOLDER)}?v={version}"
        return found

    async def _opened(self) -> Archive | None:
        if self._archive is None:
            async with self._opening:  # one request opens it, and the others wait
                if self._archive is None:
                    self._archive = await trio.to_thread.run_sync(open_manual)
        return self._archive


def _with_address(body: bytes, address: str) -> bytes:
    """Let the examples and links of a page have the address of this gateway."""
    own = html.escape(address).encode()
    default = ADDRESS.encode()
    body = body.replace(b'<span class="at">%b</span>' % default, b'<span class="at">%b</span>' % own)
    return body.replace(b'href="%b' % default, b'href="%b' % own)
