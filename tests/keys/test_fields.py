from typing import Any

import pytest

from hookgw import Invalid
from tests.public.keys import parse_key_request

NOW = 1_800_000_000.0
NOON = 1_795_176_000.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"name": "crm"}, {"name": "crm"}),
        ({"name": "crm", "expiresIn": None, "expiresAt": None}, {"name": "crm"}),
        ({"name": "crm", "expiresIn": "30d"}, {"name": "crm", "expires_at": NOW + 30 * DAY}),
        ({"name": "crm", "expires_in": "1s"}, {"name": "crm", "expires_at": NOW + 1}),
        ({"name": "crm", "expiresIn": "3650d"}, {"name": "crm", "expires_at": NOW + 3650 * DAY}),
        ({"name": "crm", "expiresAt": "2026-11-20T12:00:00Z"}, {"name": "crm", "expires_at": NOON}),
        ({"name": "crm", "expires_at": "2026-11-20T14:00:00+02:00"}, {"name": "crm", "expires_at": NOON}),
    ],
)
def test_valid_bodies(body: Any, wanted: dict[str, Any]) -> None:
    assert parse_key_request(body, now=NOW) == wanted


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ({"name": "a", "right": ["read"]}, ["right is not a field of a key. Did you mean rights?"]),
        ([1], ["The body must be an object, not a list."]),
        ({}, ["name is missing."]),
        ({"name": 1, "expiresIn": 5}, ["name must be a string", "expiresIn: expected a duration"]),
        ({"name": "a", "expiresIn": "999ms"}, ["expiresIn must be from 1s to"]),
        ({"name": "a", "expiresIn": "3651d"}, ["expiresIn must be from 1s to"]),
        ({"name": "a", "expiresIn": "0"}, ["expiresIn must be from 1s to"]),
        ({"name": "a", "expiresAt": "tomorrow"}, ["expiresAt must be an RFC 3339 time"]),
        ({"name": "a", "expiresAt": 5}, ["expiresAt must be a string"]),
        (
            {"name": "a", "expiresAt": "9999-12-31T23:59:59-14:00"},
            ["expiresAt must be at most 3650d ahead, by 2037-01-12"],
        ),
        ({"name": "a", "expiresIn": "1d", "expiresAt": "2026-11-20T12:00:00Z"}, ["not both"]),
    ],
)
def test_mistakes(body: Any, problems: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        parse_key_request(body, now=NOW)
    assert len(caught.value.messages) == len(problems)
    for message, problem in zip(caught.value.messages, problems, strict=True):
        assert problem in message
