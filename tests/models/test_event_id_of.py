"""Ids of networks as ids of events: the same for ever, and never the same for two."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hookgw
from hookgw import event_id_of
from tests.public.records import EVENT_ID

TEXTS = st.text() | st.text("a1-_ :,$", max_size=4)
PARTS = st.lists(TEXTS, min_size=1, max_size=4).map(tuple).filter(any)


# An id that changes with a version of hookgw lets events come twice.
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("$abc:server",), "abc-server-4uv7e6nyq3dbjqvbxgoozvctg3oe6dmn"),
        (("wamid.HBgLNTUxMQ==",), "wamid-HBgLNTUxMQ-ym3gbyea3d5paxfutjzuwcwkcornrla5"),
        (("true_5511@c.us_3EB0",), "true-5511-c-us-3EB0-pdu2zws6gt4qdrqcdkgpcgs5zxn46mhs"),
        (
            ("receipt", "$abc:server", "@ann:server"),
            "receipt-abc-server-ann-server-7o7gdc4exa36p7oumxmag4vd7wppvwoq",
        ),
        (("жизнь",), "id-bxqsavd3acvk6nwlstiilnbrq7duz5tw"),
        (("\ud800",), "id-djszuz5tietgbothk5stmiqepmkfnoy5"),
        (("x" * 1000,), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-72mn7a27fpylkxs5x6vd4f7r4woklfhg"),
    ],
)
def test_known_ids(parts: tuple[str, ...], expected: str) -> None:
    assert event_id_of(*parts) == expected


def test_plugins_import_it_from_hookgw() -> None:
    assert hookgw.event_id_of is event_id_of


@given(PARTS)
def test_every_id_fits(parts: tuple[str, ...]) -> None:
    assert EVENT_ID.fullmatch(event_id_of(*parts))
    assert event_id_of(*parts) == event_id_of(*parts)


@given(PARTS, PARTS)
def test_other_parts_give_another_id(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (event_id_of(*one) == event_id_of(*other)) is (one == other)


@given(PARTS, st.integers(min_value=0), st.integers(min_value=0))
def test_the_boundaries_of_parts_matter(parts: tuple[str, ...], which: int, where: int) -> None:
    which %= len(parts)
    where %= len(parts[which]) + 1
    split = (*parts[:which], parts[which][:where], parts[which][where:], *parts[which + 1 :])
    assert event_id_of(*split) != event_id_of(*parts)
    assert event_id_of(*parts, "") != event_id_of(*parts)


def test_an_id_is_not_the_id_of_itself() -> None:
    """A network that chooses an id of hookgw's as its own gains nothing."""
    first = event_id_of("a")
    assert event_id_of(first) != first
    assert event_id_of("a", "b") != event_id_of("a-b") != event_id_of("a b")


@pytest.mark.parametrize("parts", [(), ("",), ("", "")])
def test_nothing_has_no_id(parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least one character"):
        event_id_of(*parts)


def test_a_number_must_be_made_a_text_first() -> None:
    number: Any = 17
    with pytest.raises(TypeError):
        event_id_of("update", number)
