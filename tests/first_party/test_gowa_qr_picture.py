"""The text of a QR code, from a picture as GOWA draws it."""

import io

import pytest
import segno
from hypothesis import given
from hypothesis import strategies as st

from plugins.gowa.qr_picture import read_qr_code
from tests.networks.gowa.server import draw_code, picture

# As WhatsApp makes them: a number, and keys in Base64.
CODE = "2@" + ",".join("Qb7/x+" * 7 + "A=" for _ in range(4)) + ",1"


def png(text: str, *, error: str = "m", **options: int) -> bytes:
    out = io.BytesIO()
    segno.make(text.encode(), error=error, micro=False, boost_error=False).save(out, kind="png", **options)
    return out.getvalue()


@pytest.mark.parametrize("scale", [1, 3, 8])
@pytest.mark.parametrize("error", ["l", "m", "q", "h"])
def test_the_code_of_a_picture_is_read(scale: int, error: str) -> None:
    assert read_qr_code(png(CODE, error=error, scale=scale, border=4)) == CODE


@pytest.mark.parametrize("text", ["1", "12", "1234567", "HELLO WORLD", "A1$", "0", "2@ä/" * 100, "x" * 1200])
def test_every_mode_and_size_is_read(text: str) -> None:
    assert read_qr_code(png(text, scale=4, border=4)) == text


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300))
def test_what_was_drawn_is_read(text: str) -> None:
    made = segno.make(text.encode(), error="m", mode="byte", micro=False)
    out = io.BytesIO()
    made.save(out, kind="png", scale=2, border=4)
    assert read_qr_code(out.getvalue()).encode() == text.encode()


@pytest.mark.parametrize("text", [CODE, "2@A", "x" * 400])
@pytest.mark.parametrize("depth", [1, 8])
def test_a_picture_of_one_size_for_every_code_is_read(text: str, depth: int) -> None:
    """As GOWA draws it: modules are no whole number of pixels."""
    assert read_qr_code(draw_code(text, depth)) == text


@given(st.binary(max_size=300))
def test_other_bytes_are_refused(data: bytes) -> None:
    for given_ in (data, b"\x89PNG\r\n\x1a\n" + data):
        with pytest.raises(ValueError, match="no QR code"):
            read_qr_code(given_)


@given(st.binary(min_size=50, max_size=50), st.integers(25, 60))
def test_other_pictures_are_refused(line: bytes, height: int) -> None:
    with pytest.raises(ValueError, match="no QR code"):
        read_qr_code(picture([bytes(50), *([bytes(4) + line[8:] + bytes(4)] * height), bytes(50)]))
