"""Names on the command line."""

from __future__ import annotations

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke


@pytest.mark.parametrize(
    "args",
    [
        ("key", "revoke", "loja1/crm"),
        ("key", "revoke", "crm", "--instance", "loja1/crm"),
        ("webhook", "find", "loja1/crm"),
        ("webhook", "find", "loja1", "--label", "loja1/crm"),
        ("webhook", "list", "loja1/crm"),
        ("instance", "delete", "loja1/crm"),
        ("delivery", "list", "loja1/crm"),
        ("delivery", "cancel", "loja1/crm", "--yes"),
        ("event", "erase", "loja1/crm", "5511988887777@s.whatsapp.net", "--yes"),
        ("tail", "loja1", "loja1/crm"),
    ],
)
async def test_a_name_with_a_slash_reaches_nothing_else(
    args: tuple[str, ...], invoke: Invoke, server: Receiver
) -> None:
    refused = await invoke(*args)
    assert refused.exit_code == 2
    assert "'loja1/crm' is not a name. Names contain no slash." in refused.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    "args",
    [("delivery", "resend", "loja1", "1/../2"), ("delivery", "show", "loja1", "a/b"), ("job", "find", "a/b")],
)
async def test_an_id_with_a_slash_reaches_nothing_else(
    args: tuple[str, ...], invoke: Invoke, server: Receiver
) -> None:
    refused = await invoke(*args)
    assert refused.exit_code != 0
    assert f"{args[-1]!r} is not a name or an id: these contain no slash." in refused.stderr
    assert server.requests == []
