from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookgw.delivery.http.connection import IdleConnection
from tests.dispatch.sockets import idle_connection


@pytest.fixture
def connection() -> Iterator[IdleConnection]:
    """An open connection on which nothing is sent."""
    with idle_connection() as (ours, _):
        yield ours
