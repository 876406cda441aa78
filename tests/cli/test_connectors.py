import json
from typing import Any

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

TELEGRAM: dict[str, Any] = {
    "name": "telegram",
    "plugin": "telegram",
    "calls": ["sendText", "findChats"],
    "takesRequests": True,
    "integrations": ["EVOLUTION"],
    "optionsSchema": {
        "type": "object",
        "required": ["bot_token"],
        "properties": {
            "bot_token": {"description": "The bot's token.", "writeOnly": True},
            "mode": {"description": "How.", "enum": ["polling", "webhook"], "default": "polling"},
            "rate": {"description": "How fast.", "default": 5, "x-operator": True},
            "odd": True,
        },
    },
}
ANY = TELEGRAM | {"name": "any", "takesRequests": False, "integrations": [], "optionsSchema": None}


async def test_connectors_are_a_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([TELEGRAM, ANY])
    result = await invoke("connectors", "--wide")
    assert server.requests[0].target == "/connector/list"
    head, telegram, others = (line.split() for line in result.stdout.splitlines())
    assert head == ["name", "options", "calls", "ingest", "URL", "integrations"]
    assert telegram == [
        "telegram",
        "bot_token",
        "mode",
        "rate",
        "odd",
        "sendText",
        "findChats",
        "yes",
        "EVOLUTION",
    ]
    assert others == ["any", "sendText", "findChats"]
    assert json.loads((await invoke("connectors", "--json")).stdout) == [TELEGRAM, ANY]


async def test_the_options_of_one(invoke: Invoke, server: Receiver) -> None:
    server.default = says([TELEGRAM, ANY])
    lines = (await invoke("connectors", "telegram", "--wide")).stdout.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "option default meaning",
        "bot_token required The bot's token. A secret.",
        "mode polling How. One of: polling, webhook.",
        "rate 5 How fast. Only a global key changes it.",
        "odd",
    ]
    assert json.loads((await invoke("connectors", "telegram", "--json")).stdout) == TELEGRAM
    assert "it takes any" in (await invoke("connectors", "any")).stderr
    missing = await invoke("connectors", "telegraf")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "There is no connector 'telegraf'." in missing.stderr


LINES = "plugins:\n  options:\n    waha: {}"
FOUND = [
    {
        "connector": "waha",
        "url": "http://waha:3000",
        "version": None,
        "isListed": False,
        "configuration": LINES,
    },
    {
        "connector": "evolution",
        "url": "http://evolution:8080",
        "version": "2.3.7",
        "isListed": True,
        "configuration": "",
    },
]


async def test_servers_are_shown_with_the_lines_to_add(invoke: Invoke, server: Receiver) -> None:
    server.default = says(FOUND)
    result = await invoke("connectors", "--find")
    assert (server.requests[0].method, server.requests[0].target) == ("POST", "/connector/find")
    assert "http://waha:3000: waha\n" in result.stdout
    assert "\n    plugins:\n      options:\n        waha: {}\n" in result.stdout
    assert "http://evolution:8080: evolution 2.3.7\n  The configuration lists it already.\n" in result.stdout
    assert json.loads((await invoke("connectors", "waha", "--find", "--json")).stdout) == FOUND[:1]


async def test_no_server_is_said(invoke: Invoke, server: Receiver) -> None:
    server.default = says([])
    result = await invoke("connectors", "--find")
    assert result.exit_code == 0
    assert "None of the usual places" in result.stdout
