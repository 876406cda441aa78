"""Media types and the ends of file names, the same on every machine. No I/O.

Python's own functions read ``/etc/mime.types``, which slim images of Linux lack, or the registry of Windows.
Without those, they know no Office document and no voice message.
"""

from __future__ import annotations

import mimetypes
from functools import cache

_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
# Of several ends, the first is that of a new name.
_MORE = {
    "application/epub+zip": (".epub",),
    "application/gzip": (".gz", ".tgz"),
    "application/rtf": (".rtf",),
    "application/vnd.rar": (".rar",),
    "application/x-7z-compressed": (".7z",),
    "application/x-bzip2": (".bz2",),
    "application/x-xz": (".xz",),
    f"{_OPEN_DOCUMENT}.presentation": (".odp",),
    f"{_OPEN_DOCUMENT}.spreadsheet": (".ods",),
    f"{_OPEN_DOCUMENT}.text": (".odt",),
    f"{_OPEN_XML}.presentationml.presentation": (".pptx",),
    f"{_OPEN_XML}.spreadsheetml.sheet": (".xlsx",),
    f"{_OPEN_XML}.wordprocessingml.document": (".docx",),
    "audio/amr": (".amr",),
    "audio/mp4": (".m4a",),
    "audio/ogg": (".oga", ".ogg"),
    "image/heic": (".heic",),
    "image/webp": (".webp",),
    "text/vcard": (".vcf",),
    "video/3gpp": (".3gp",),
    "video/x-matroska": (".mkv",),
}
_BEGINNINGS = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    # MPEG 1, 2 and 2.5 without a tag. Speech is often MPEG 2: its rate is 24 kHz or less.
    *((bytes((0xFF, second)), "audio/mpeg") for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"#!AMR", "audio/amr"),
    (b"%PDF-", "application/pdf"),
)


@cache  # it reads the files of the system first: 2 ms, which no start needs
def _known() -> mimetypes.MimeTypes:
    known = mimetypes.MimeTypes()
    # Of notes.txt.gz, Python tells the type of what is compressed: for HTTP, which has a header for the rest.
    known.encodings_map = known.suffix_map = {}
    for mimetype, ends in _MORE.items():
        for end in ends:
            known.add_type(mimetype, end)
    return known


def guess_mimetype(name: str) -> str | None:
    """Return the media type that the name of a file, or its URL, tells; ``None`` if it tells none."""
    return _known().guess_type(name.rpartition("/")[2])[0]


def type_of_content(content: bytes) -> str | None:
    """Return the media type that the beginning of a file tells; ``None`` if it tells none."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((mimetype for beginning, mimetype in _BEGINNINGS if content.startswith(beginning)), None)


def suffix_of(mimetype: str) -> str:
    """Return the end of the name of a file, such as ``.pdf``; empty if none is known for its type.

    Args:
        mimetype: perhaps with parameters, as in ``audio/ogg; codecs=opus``.
    """
    return _known().guess_extension(mimetype.partition(";")[0].strip()) or ""
