"""The commands of the plugin `alerts`."""

from typing import Any

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

SENT = {"name": "phone", "error": None}
REFUSED = {"name": "team", "error": "The server answered 404."}


@pytest.mark.parametrize(
    ("channels", "status", "lines"),
    [
        ([SENT], 0, ["phone: sent"]),
        ([SENT, REFUSED], 1, ["phone: sent", "team: The server answered 404."]),
        ([], 1, []),
    ],
)
async def test_a_test_succeeds_if_every_channel_took_it(
    invoke: Invoke, server: Receiver, channels: list[dict[str, Any]], status: int, lines: list[str]
) -> None:
    server.default = says({"channels": channels})
    result = await invoke("alerts", "test")
    assert (result.exit_code, result.stdout.splitlines()) == (status, lines)


async def test_a_test_of_no_channel_names_the_setting(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"channels": []})
    assert "alerts.channels" in (await invoke("alerts", "test")).stderr


async def test_a_list_says_what_no_channel_takes_and_which_rules_tell_nobody(
    invoke: Invoke, server: Receiver
) -> None:
    refused = {"alert": "alert_1", "channels": ["phone", "mail"], "attempts": 2, "error": "It answered 404."}
    left_out = {"on": ["disk", "database"], "to": ["mail"], "reason": "to: there is no channel 'mail'"}
    found = {"alerts": [], "waiting": 2, "refused": [refused, refused], "channels": ["phone"]}
    server.default = says({**found, "leftOut": [left_out]})
    listed = await invoke("alerts", "list")
    assert listed.stderr.splitlines() == [
        "Not told to phone or mail (2 waiting, tried again): It answered 404.",
        "Not in use, the rule on disk, database for mail: to: there is no channel 'mail'",
    ]
