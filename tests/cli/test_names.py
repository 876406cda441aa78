"""Names on the command line."""

import pytest

from hookgw.testing import Answer, Received, Receiver
from tests.cli.conftest import Invoke, says


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


KNOWN = [{"name": "loja1"}, {"name": "loja2"}]


async def gateway_that_knows(request: Received) -> Answer:
    if request.target == "/instance/fetchInstances":
        return says(KNOWN)
    if request.target == "/webhook/list/loja1":
        return says({"registrations": [{"label": "crm"}, {"label": "default"}], "cursor": None})
    if request.target == "/webhook/list/loja2":
        return says({"registrations": [{"label": "n8n"}, {"label": "shop"}], "cursor": None})
    if request.target.startswith("/webhook/find/"):
        return says(None)
    return says({"status": 404, "error": "Not Found", "response": {"message": ["Not there."]}}, 404)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("instance", "state", "loja11"), "Did you mean loja1?"),
        (("webhook", "list", "Loja2"), "Did you mean loja2?"),
        (("delivery", "show", "shop", "dlv_1"), "The instances that the key can access: loja1, loja2."),
        (("webhook", "test", "loja1", "--label", "cmr"), "Did you mean crm?"),
        (("webhook", "test", "loja1", "--label", "billing"), "The labels of loja1: crm, default."),
        (("webhook", "pause", "loja2"), "The labels of loja2: n8n, shop."),
        (("tail", "loja11"), "Did you mean loja1?"),
        (("tail", "loja2", "loja11"), "Did you mean loja1?"),
    ],
)
async def test_a_name_that_is_not_there_gets_a_suggestion(
    invoke: Invoke, server: Receiver, args: tuple[str, ...], said: str
) -> None:
    server.default = gateway_that_knows
    result = await invoke(*args)
    assert (result.exit_code, result.stderr) == (1, f"Error: Not there.\n{said}\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("loja11",), "Did you mean loja1?"),
        (("loja1", "--label", "cmr"), "Did you mean crm?"),
        (("loja2",), "The labels of loja2: n8n, shop."),
    ],
)
async def test_a_webhook_that_is_not_found_gets_one_too(
    invoke: Invoke, server: Receiver, args: tuple[str, ...], said: str
) -> None:
    server.default = gateway_that_knows
    result = await invoke("webhook", "find", *args)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: No URL is registered for ")
    assert result.stderr.endswith(f"\n{said}\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("instance", "state", "loja11"), "¿Quiso decir loja1?"),
        (
            ("delivery", "show", "shop", "dlv_1"),
            "Las instancias que alcanza la clave: loja1, loja2.",
        ),
        (("webhook", "test", "loja1", "--label", "billing"), "Las etiquetas de loja1: crm, default."),
    ],
)
async def test_a_suggestion_is_in_the_language_of_its_error(
    invoke: Invoke, server: Receiver, args: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "es")
    server.default = gateway_that_knows
    assert (await invoke(*args)).stderr.splitlines()[-1] == said


async def test_a_known_name_gets_none(invoke: Invoke, server: Receiver) -> None:
    server.default = gateway_that_knows
    result = await invoke("delivery", "show", "loja1", "dlv_1")
    assert result.stderr == "Error: Not there.\n"
