"""``hookgw problem``."""

from typing import Any

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

PROBLEM: dict[str, Any] = {
    "id": "5d0c1f2a9b3e",
    "cause": "crm.example:8443 answers 500",
    "loss": "events",
    "webhooks": 4000,
    "instances": 2000,
    "pending": 1_000_000,
    "since": "2026-11-20T12:00:00.000Z",
    "mute": None,
    "problems": [{"why": "It answered 500."}],
}


@pytest.mark.parametrize("columns", ["50", "80", "120"])
async def test_a_narrow_terminal_shows_the_id_that_mute_takes(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    server.default = says({"problems": [PROBLEM], "others": 0})
    result = await invoke("problem", "list")
    assert PROBLEM["id"] in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= int(columns)
