import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.kernel import decode_base64url


@given(st.binary(max_size=40))
def test_a_text_without_padding_is_decoded(content: bytes) -> None:
    assert decode_base64url(base64.urlsafe_b64encode(content).decode().rstrip("=")) == content


@pytest.mark.parametrize(
    "text", ["++++", "////", "AA+A", "AA A", " AAA", "AAA%", "A\nAA", "éAAA", "A", "AA==A"]
)
def test_another_alphabet_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode_base64url(text)
