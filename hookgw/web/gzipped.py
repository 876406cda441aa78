"""Pages and files that are kept compressed, and sent so to clients that take gzip: nearly all."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping

import trio
from quart import Response, request

from hookgw.web.request_body import current_exchange


class Gzipped:
    """A response body that stays the same."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self._content_type = content_type
        self._compressed = gzip.compress(body, mtime=0)
        # Weak: the compressed bytes and the plain ones have the same tag (RFC 9110, section 8.8.3.3).
        self._tag = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'

    @classmethod
    async def make(cls, body: bytes, content_type: str) -> Gzipped:
        """Compress a body; a long one takes 10 ms, which other requests do not wait for."""
        return await trio.to_thread.run_sync(cls, body, content_type)

    def response(self, headers: Mapping[str, str], vary: str = "accept-encoding") -> Response:
        """Return the response to the current request: 304 if its client has this body already."""
        current_exchange().is_static = True
        sent = {"cache-control": "no-cache", **headers, "etag": self._tag, "vary": vary}
        if self._tag in request.headers.get("if-none-match", ""):
            return Response(b"", 304, sent)
        if request.accept_encodings["gzip"] > 0:
            sent["content-encoding"] = "gzip"
            return Response(self._compressed, headers=sent, content_type=self._content_type)
        return Response(gzip.decompress(self._compressed), headers=sent, content_type=self._content_type)
