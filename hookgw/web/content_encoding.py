"""The content encoding of request bodies (RFC 9110, section 8.4): gzip or none."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

from hookgw.kernel.errors import Invalid, UnsupportedContentEncoding

_PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_MISMATCH = "The body is not what its content-encoding (gzip) says"


class Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...

    def getlist(self, name: str, /) -> list[str]: ...


def is_gzip(headers: Headers) -> bool:
    """Return whether the body is compressed with gzip.

    Raises:
        UnsupportedContentEncoding: the body has another encoding, or several.
    """
    given = ", ".join(headers.getlist("content-encoding"))
    codings = [
        name for coding in given.lower().split(",") if (name := coding.strip()) not in ("", "identity")
    ]
    if not codings:
        return False
    # A bomb of several layers passes each limit once. Clients compress once.
    if codings in (["gzip"], ["x-gzip"]):  # RFC 9110, section 8.4.1.3: both mean the same
        return True
    raise UnsupportedContentEncoding.of(
        "body.content_encoding",
        "The content-encoding must be gzip, or the header must be missing, not {given!r}.",
        given=given[:100],
    )


class GzipDecoder:
    def __init__(self) -> None:
        self._decompress = zlib.decompressobj(wbits=_GZIP)

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of a part. Each is small, so that the caller can stop at a limit.

        Raises:
            Invalid: the body is not gzip, or something follows its end.
        """
        decoder = self._decompress
        while part:
            if decoder.eof:
                raise Invalid.of(
                    "body.gzip_followed",
                    "{mismatch}: something follows the end of the compressed data.",
                    mismatch=_MISMATCH,
                )
            try:
                piece = decoder.decompress(part, _PIECE)
            except zlib.error:
                raise Invalid.of(
                    "body.gzip_invalid", "{mismatch}: it cannot be decompressed.", mismatch=_MISMATCH
                ) from None
            part = decoder.unconsumed_tail or decoder.unused_data
            yield piece

    def finish(self) -> None:
        """Check that the body is complete; raise ``Invalid`` if it was cut off."""
        if not self._decompress.eof:
            raise Invalid.of("body.gzip_cut_off", "{mismatch}: it is cut off.", mismatch=_MISMATCH)
