"""The manual in one file: a zip of compressed pages, which is read when somebody first asks for a page.

Pages have the navigation in common. So each is compressed with the first page as its dictionary, which halves
the archive. It depends on nothing but its content, so that two builds are equal.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

_WINDOW = 32 * 1024


def pack(files: Mapping[str, bytes], first: str) -> bytes:
    """Return an archive. The name of the file that the others resemble comes first in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as packed:
        for name in (first, *sorted(files.keys() - {first})):
            common = b"" if name == first else files[first][-_WINDOW:]
            compressor = zlib.compressobj(9, wbits=zlib.MAX_WBITS, zdict=common)
            content = compressor.compress(files[name]) + compressor.flush()
            packed.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


class Archive:
    """Reads what :func:`pack` has made."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        first, *_ = self.names = self._zip.namelist()
        self._common = zlib.decompress(self._zip.read(first))[-_WINDOW:]
        self._first = first

    def read(self, name: str) -> bytes:
        """Return a file.

        Raises:
            KeyError: there is none of this name.
        """
        common = b"" if name == self._first else self._common
        decompressor = zlib.decompressobj(zdict=common)
        return decompressor.decompress(self._zip.read(name)) + decompressor.flush()
