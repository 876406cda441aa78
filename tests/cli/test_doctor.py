"""``hookgw doctor``."""

import json
from email.utils import formatdate
from typing import Any

import pytest

from hookgw.testing import Answer, Received, Receiver, answer
from tests.cli.conftest import Invoke, says

FINE: list[dict[str, Any]] = [
    {"check": "connection", "state": "ok", "found": "Connected as 5511.", "instance": "loja1"},
    {"check": "webhook", "state": "ok", "found": "Enabled.", "instance": "loja1", "label": "crm"},
    {
        "check": "reach",
        "state": "ok",
        "found": "It accepts connections.",
        "instance": "loja1",
        "label": "crm",
    },
]
ATTEMPT = {"outcome": "delivered", "status": 200, "duration": 12.0, "error": None, "answer": ""}


def gateway_with(*checks: dict[str, Any], attempt: dict[str, Any] = ATTEMPT) -> Any:
    async def respond(request: Received) -> Answer:
        if request.target.startswith("/webhook/test/"):
            return says(attempt)
        return says({"checks": [*checks], "at": "2026-11-20T12:00:00.000Z", "version": "1"})

    return respond


async def test_all_is_well(invoke: Invoke, server: Receiver) -> None:
    server.default = gateway_with(*FINE)
    result = await invoke("doctor", "loja1")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "A signed test event was answered with 200 in 12 ms." in result.stdout
    assert [one.target for one in server.requests] == ["/diagnosis/loja1", "/webhook/test/loja1/crm"]
    assert "What to do" not in result.stdout


async def test_what_failed_comes_with_what_to_do(invoke: Invoke, server: Receiver) -> None:
    closed = FINE[0] | {
        "state": "failed",
        "found": "Not connected.",
        "advice": "hookgw instance connect loja1",
    }
    server.default = gateway_with(closed, *FINE[1:])
    result = await invoke("doctor", "loja1")
    assert (result.exit_code, result.stderr) == (1, "Error: 1 check failed.\n")
    assert result.stdout.splitlines()[-1] == "  connection (loja1): hookgw instance connect loja1"


async def test_no_test_event_goes_to_a_receiver_that_cannot_be_reached(
    invoke: Invoke, server: Receiver
) -> None:
    server.default = gateway_with(*FINE[:2], FINE[2] | {"state": "failed", "found": "Refused."})
    await invoke("doctor", "loja1")
    assert [one.target for one in server.requests] == ["/diagnosis/loja1"]


async def test_no_test_event_goes_anywhere_if_none_is_wanted(invoke: Invoke, server: Receiver) -> None:
    server.default = gateway_with(*FINE)
    assert (await invoke("doctor", "loja1", "--no-test")).exit_code == 0
    assert [one.target for one in server.requests] == ["/diagnosis/loja1"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_signature_leads_to_the_secret(invoke: Invoke, server: Receiver, status: int) -> None:
    refused = ATTEMPT | {"outcome": "failed", "status": status, "error": f"It answered {status}."}
    server.default = gateway_with(*FINE, attempt=refused | {"answer": "bad\nsignature"})
    result = await invoke("doctor", "loja1", "--json")
    (check,) = [one for one in json.loads(result.stdout)["checks"] if one["check"] == "signature"]
    assert check["state"] == "failed"
    assert check["found"].endswith(f"It answered {status}. It said: bad signature")
    assert check["advice"].endswith("hookgw webhook secret loja1 --label crm")


async def test_a_wrong_clock_is_found(invoke: Invoke, server: Receiver) -> None:
    body = json.dumps({"checks": [], "at": "2020-01-01T00:00:00.000Z", "version": "1"})
    headers = {"x-hookgw-version": "1.0", "date": formatdate(0, usegmt=True)}
    server.default = answer(200, body, headers=headers)
    result = await invoke("doctor")
    assert result.exit_code == 1
    assert "s behind that of this one." in result.stdout


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            "12 pending. The head, dlv_7, waits for 6s. Last answer: Cancelled by hookgw.",
            "12 pendientes. La primera, dlv_7, espera desde hace 6s. Última respuesta: Cancelada por hookgw.",
        ),
        (
            "Enabled, for 35 kinds: http://crm.example/, with a filter",
            "Activado, para 35 tipos: http://crm.example/, con un filtro",
        ),
        ("Enabled, for CALL: http://crm.example/", "Activado, para CALL: http://crm.example/"),
        ("100 or more in the last day.", "100 o más en el último día."),
        ("The host has 2 addresses.", "El host tiene 2 direcciones."),
        (
            "3 webhooks are paused; this is one: deliveries wait, in order.",
            "3 webhooks están en pausa; este es uno: las entregas esperan, en orden.",
        ),
        (
            "The times of hookgw are 1m 5s ahead of the machine's clock.",
            "Las horas de hookgw van 1m 5s por delante respecto al reloj de la máquina.",
        ),
        ("Events are refused: no room is left.", "Los eventos se rechazan: no queda espacio."),
        (
            "A signed test event was not delivered. The outcome is failed. It said: no way",
            "Un evento de prueba firmado no se entregó. El resultado es failed. Dijo: no way",
        ),
        ("Said by a plugin alone.", "Said by a plugin alone."),
    ],
)
async def test_what_is_found_is_in_the_language_of_the_terminal(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch, found: str, told: str
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", "es")
    monkeypatch.setenv("COLUMNS", "250")
    check = FINE[0] | {"state": "failed", "found": found, "advice": f"If messages are missing: {found}"}
    server.default = gateway_with(check)
    result = await invoke("doctor")
    assert result.stdout.splitlines()[1].split("  ")[-1] == told
    assert result.stdout.splitlines()[-1] == f"  connection (loja1): Si faltan mensajes: {told}"
    # Programs read the JSON, which is English in any language.
    shown = json.loads((await invoke("doctor", "--json")).stdout)
    assert (shown["checks"][0]["found"], shown["checks"][-1]["check"]) == (found, "clock")
