"""The numbers that callers name on WhatsApp: the right person, or a sentence."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgw import Invalid, whatsapp_chat_of, whatsapp_number_of

_NUMBERS = st.from_regex(r"[1-9][0-9]{6,14}", fullmatch=True)
_SEPARATORS = st.text("+ -()[]\u00a0\u202f\t", max_size=3)


@st.composite
def typed(draw: st.DrawFn) -> tuple[str, str]:
    """Return a number as people type it, and its digits."""
    digits = draw(_NUMBERS)
    return "".join(draw(_SEPARATORS) + digit for digit in digits) + draw(_SEPARATORS), digits


@given(typed())
@example(("+55 (11) 98888-7777", "5511988887777"))
def test_separators_are_left_out(number: tuple[str, str]) -> None:
    written, digits = number
    assert whatsapp_number_of(written) == digits


@given(st.text("0123456789+-. ()[]abc٣²", max_size=30))
@example("5511988887777.0")
@example("(123) 456-7")
@example("005511988887777")
@example("011988887777")
@example("+0 5511988887777")
@example("1234567890123456")
@example("123456")
@example("٣٣٣٣٣٣٣٣")
def test_a_number_is_its_digits_or_refused(number: str) -> None:
    digits = number.translate({ord(one): None for one in "+- ()[]"})
    is_number = digits.isascii() and digits.isdigit() and 7 <= len(digits) <= 15 and digits[0] != "0"
    if is_number:
        assert whatsapp_number_of(number) == digits
        return
    with pytest.raises(Invalid, match=r"number: .* is not a phone number; use 7 to 15 digits") as refused:
        whatsapp_number_of(number)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("5511988887777.0", "a dot is no separator"),
        ("55.11.98888.7777", "a dot is no separator"),
        ("005511988887777", "without 0, 00 or another prefix"),
        ("011988887777", "without 0, 00 or another prefix"),
        ("12345", "not 5"),
        ("1234567890123456", "not 16"),
        ("5511988887777 ext 3", "7 to 15 digits"),
        ("", "7 to 15 digits"),
        ("5511988887777.0@s.whatsapp.net", "a dot is no separator"),
        ("005511988887777@c.us", "without 0, 00 or another prefix"),
        ("11-98888@c.us", "not a person"),
        ("x" * 200, "x…'"),
    ],
)
def test_the_sentence_says_why(number: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        whatsapp_chat_of(number)


@pytest.mark.parametrize(
    ("number", "chat"),
    [
        ("+55 11 98888-7777", "5511988887777@s.whatsapp.net"),
        (" 5511988887777 ", "5511988887777@s.whatsapp.net"),
        ("5511988887777@s.whatsapp.net", "5511988887777@s.whatsapp.net"),
        ("5511988887777:12@s.whatsapp.net", "5511988887777@s.whatsapp.net"),
        ("5511988887777@c.us", "5511988887777@s.whatsapp.net"),
        ("0@s.whatsapp.net", "0@s.whatsapp.net"),
        ("120363040000000000", "120363040000000000@g.us"),
        ("5511988887777-1400000000", "5511988887777-1400000000@g.us"),
        ("120363040000000000@g.us", "120363040000000000@g.us"),
        ("123@lid", "123@lid"),
        ("status@broadcast", "status@broadcast"),
    ],
)
def test_chats(number: str, chat: str) -> None:
    assert whatsapp_chat_of(number) == chat


@given(st.from_regex(r"[0-9]{16,20}|[0-9]{10,14}-[0-9]{10}", fullmatch=True))
def test_ids_of_groups_are_longer_than_numbers(number: str) -> None:
    is_group = len(number) >= (24 if "-" in number else 18)
    if is_group:
        assert whatsapp_chat_of(number) == f"{number}@g.us"
    else:
        with pytest.raises(Invalid, match="number"):
            whatsapp_chat_of(number)
