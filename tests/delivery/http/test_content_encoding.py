"""Content codings, decoded within a limit."""

from __future__ import annotations

import gzip
import zlib

import pytest

from hookgw.delivery.http.content_encoding import decode

TEXT = b"hello " * 100


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        (" GZIP ", gzip.compress(TEXT, mtime=0)),
        ("x-gzip", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("br", TEXT),
        ("gzip, gzip", TEXT),
    ],
)
def test_known_codings_are_undone_and_others_left(coding: str, body: bytes) -> None:
    assert decode(body, coding, len(TEXT)) == (TEXT, True)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_the_limit_is_on_what_comes_out(coding: str) -> None:
    body = gzip.compress(TEXT, mtime=0) if coding == "gzip" else zlib.compress(TEXT)
    assert decode(body, coding, len(TEXT) - 1) == (TEXT[:-1], False)


def test_a_bomb_is_cut_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000, mtime=0)
    assert len(bomb) < 64 * 1024
    assert decode(bomb, "gzip", 65536) == (b"\0" * 65536, False)


def test_what_is_cut_off_or_garbage_is_not_sound() -> None:
    assert decode(gzip.compress(TEXT, mtime=0)[:-4], "gzip", 10_000) == (TEXT, False)
    assert decode(b"not gzip", "gzip", 10_000) == (b"", False)
    assert decode(b"\xff\xff", "deflate", 10_000) == (b"", False)
    assert decode(gzip.compress(TEXT, mtime=0) + b"surplus", "gzip", 10_000) == (TEXT, False)


def test_no_body_needs_no_decoding() -> None:
    assert decode(b"", "gzip", 10) == (b"", True)
