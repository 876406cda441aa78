"""A request with more than one key is refused, on every route, with one sentence."""

from __future__ import annotations

import msgspec
import pytest
import trio

from hookgw.api.app import Application
from hookgw.config.settings import AuthSettings, Settings
from tests.api.conftest import KEY, open_client

TWO_KEYS = "The request has more than one apikey header; send one."
TWO_TOKENS = "The request has more than one authorization header; send one."
DIFFERENT = "The apikey and authorization headers have different keys; send one of them."
TWO_X_KEYS = "The request has more than one x-api-key header; send one."
DIFFERENT_X = "The apikey and x-api-key headers have different keys; send one of them."
DIFFERENT_FROM_TOKEN = "The x-api-key and authorization headers have different keys; send one of them."
BEARER = ("Authorization", f"Bearer {KEY}")


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([("apikey", KEY), ("apikey", "other")], TWO_KEYS),
        ([("apikey", "other"), ("ApiKey", KEY)], TWO_KEYS),
        ([("apikey", KEY), ("apikey", KEY)], TWO_KEYS),
        ([("apikey", ""), ("apikey", KEY)], TWO_KEYS),
        ([BEARER, ("authorization", "Bearer other")], TWO_TOKENS),
        ([BEARER, BEARER], TWO_TOKENS),
        ([BEARER, ("authorization", "Basic eDp5")], TWO_TOKENS),
        ([("apikey", KEY), ("authorization", "Bearer other")], DIFFERENT),
        ([("apikey", "other"), BEARER], DIFFERENT),
        ([("apikey", ""), BEARER], DIFFERENT),
        ([("apikey", KEY), ("authorization", "Bearer")], DIFFERENT),
        ([("x-api-key", KEY), ("X-Api-Key", KEY)], TWO_X_KEYS),
        ([("apikey", KEY), ("X-Api-Key", "other")], DIFFERENT_X),
        ([("apikey", "other"), ("X-Api-Key", KEY)], DIFFERENT_X),
        ([("apikey", KEY), ("X-Api-Key", "")], DIFFERENT_X),
        ([("X-Api-Key", "other"), BEARER], DIFFERENT_FROM_TOKEN),
        ([("X-Api-Key", KEY), ("authorization", "Bearer other")], DIFFERENT_FROM_TOKEN),
    ],
)
async def test_a_request_with_two_keys_gets_401(
    headers: list[tuple[str, str]], error: str, app: Application, nursery: trio.Nursery
) -> None:
    async with open_client(app, nursery) as client:
        for path in ("/metrics", "/event/kinds", "/webhook/find/loja1", "/nothing"):
            response = await client.get(path, headers=headers)
            assert response.status_code == 401
            assert response.json()["response"]["message"] == [error]


@pytest.mark.parametrize(
    "headers",
    [
        [("apikey", KEY), BEARER],
        [("apikey", KEY), ("authorization", "Basic eDp5")],
        [("apikey", KEY), ("authorization", "")],
        [BEARER],
        [("X-Api-Key", KEY)],
        [("apikey", KEY), ("x-api-key", KEY)],
        [("apikey", KEY), ("x-api-key", KEY), BEARER],
    ],
)
async def test_one_key_in_several_headers_is_one_key(
    headers: list[tuple[str, str]], app: Application, nursery: trio.Nursery
) -> None:
    async with open_client(app, nursery) as client:
        assert (await client.get("/metrics", headers=headers)).status_code == 200


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=2))


async def test_two_keys_are_no_failed_attempt(app: Application, nursery: trio.Nursery) -> None:
    """A program that sends its key twice must not lock out its address."""
    async with open_client(app, nursery) as client:
        for _ in range(5):
            response = await client.get("/metrics", headers=[("apikey", "a"), ("apikey", "b")])
            assert response.status_code == 401
        assert (await client.get("/metrics", headers=[BEARER])).status_code == 200
