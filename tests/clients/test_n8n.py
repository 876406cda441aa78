"""A workflow in a whole n8n, from hookgw's webhook to hookgw's API: n8n's own nodes and Evolution API's."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import EVOLUTION, NUMBER, URL, WITH, until_open
from tests.clients.n8n_process import N8nProcess
from tests.support.gateway_process import KEY, Server
from tests.support.ports import free_port
from tests.support.postgres import find_binaries, run_postgres
from tests.support.processes import PATIENCE

PACKAGES = os.environ.get("HOOKGW_N8N", "")
NAME = "loja"
CHAT = f"{NUMBER}@s.whatsapp.net"

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not PACKAGES or shutil.which("node") is None or find_binaries() is None,
        reason="n8n needs npm, Node 20 and PostgreSQL: nox -s clients installs it if they are there",
    ),
]


@pytest.fixture(scope="session")
def n8n(tmp_path_factory: pytest.TempPathFactory) -> Iterator[N8nProcess]:
    with run_postgres(listen=free_port()) as postgres:
        process = N8nProcess(Path(PACKAGES), tmp_path_factory.mktemp("n8n"), postgres)
        yield process
        process.close()


@pytest.mark.parametrize("server", [WITH, EVOLUTION], indirect=True, scope="session")
def test_a_workflow_answers_what_hookgw_delivers(server: Server, n8n: N8nProcess) -> None:
    created = {"instanceName": NAME, "integration": "WHATSAPP-BAILEYS"}
    server.post("/instance/create", created, status=201)
    server.get(f"/instance/connect/{NAME}")
    until_open(lambda: server.get(f"/instance/connectionState/{NAME}")["instance"]["state"])
    server.set(NAME, URL)  # what nobody wants is not stored

    path = f"hookgw-{server.url.rpartition(':')[2]}"
    credentials = {"server-url": server.url, "apikey": KEY}
    made = n8n.call("POST", "/rest/credentials", {"name": path, "type": "evolutionApi", "data": credentials})
    headers = {"parameters": [{"name": "apikey", "value": KEY}]}
    body = "$('Webhook').item.json.body"
    nodes: list[dict[str, Any]] = [
        {
            "name": "Webhook",
            "type": "n8n-nodes-base.webhook",
            "typeVersion": 2,
            "webhookId": path,
            "parameters": {"httpMethod": "POST", "path": path, "responseMode": "onReceived"},
        },
        {
            "name": "HTTP Request",
            "type": "n8n-nodes-base.httpRequest",
            "typeVersion": 4.2,
            "parameters": {
                "url": f"={server.url}/instance/connectionState/{{{{ {body}.instance }}}}",
                "sendHeaders": True,
                "headerParameters": headers,
            },
        },
        {
            "name": "Evolution API",
            "type": "CUSTOM.evolutionApi",
            "typeVersion": 1,
            "credentials": {"evolutionApi": {"id": made["id"], "name": path}},
            "parameters": {
                "resource": "messages-api",
                "operation": "send-text",
                "instanceName": f"={{{{ {body}.instance }}}}",
                "remoteJid": f"={{{{ {body}.data.key.remoteJid }}}}",
                "messageText": f"={{{{ {body}.data.message.conversation }}}}: {{{{ $json.instance.state }}}}",
                "options_message": {},
            },
        },
    ]
    workflow = n8n.activate(path, nodes)
    server.post(
        f"/webhook/set/{NAME}/n8n",
        {"url": f"{n8n.url}/webhook/{path}", "events": ["MESSAGES_UPSERT"]},
        status=201,
    )
    texts = [f"oi {number}" for number in range(5)]
    for number, text in enumerate(texts):
        message = {
            "key": {"remoteJid": CHAT, "fromMe": False, "id": f"3A{number:018X}"},
            "message": {"conversation": text},
            "messageType": "conversation",
            "messageTimestamp": 1773027345 + number,
        }
        server.emit(NAME, "MESSAGES_UPSERT", message)

    ends = time.monotonic() + PATIENCE
    while True:
        asked = {"where": {"key": {"remoteJid": CHAT, "fromMe": True}}}
        records = server.post(f"/chat/findMessages/{NAME}", asked)["messages"]["records"]
        if len(records) >= len(texts):
            break
        runs = n8n.call("GET", "/rest/executions")["results"]
        failed = [one["id"] for one in runs if one["workflowId"] == workflow and one["status"] == "error"]
        assert not failed, n8n.call("GET", f"/rest/executions/{failed[0]}")["data"]
        assert time.monotonic() < ends, runs
        time.sleep(0.2)
    answers = [one["message"]["conversation"] for one in records]
    assert sorted(answers) == [f"{text}: open" for text in texts]
    server.http.delete(f"/instance/delete/{NAME}")


@pytest.mark.parametrize("server", [WITH], indirect=True, scope="session")
def test_an_n8n_without_a_public_address_gets_what_it_missed_in_order(
    server: Server, n8n: N8nProcess, tmp_path: Path
) -> None:
    """Through ``hookgw connect``, while n8n is off for a time; then a second webhook is backfilled."""
    account, seen, path = "behind-nat", "seen", "behind-nat"
    for name in (account, seen):
        server.post("/instance/create", {"instanceName": name}, status=201)
    n8n.activate(
        path,
        [
            {
                "name": "Webhook",
                "type": "n8n-nodes-base.webhook",
                "typeVersion": 2,
                "webhookId": path,
                # It answers when the workflow has ended, so one message comes after the other.
                "parameters": {"httpMethod": "POST", "path": path, "responseMode": "lastNode"},
            },
            {
                "name": "HTTP Request",
                "type": "n8n-nodes-base.httpRequest",
                "typeVersion": 4.2,
                "parameters": {
                    "method": "POST",
                    "url": f"{server.url}/event/emit/{seen}/CALL",
                    "sendHeaders": True,
                    "headerParameters": {"parameters": [{"name": "apikey", "value": KEY}]},
                    "sendBody": True,
                    "specifyBody": "json",
                    "jsonBody": "={{ JSON.stringify({text: $json.body.data.text}) }}",
                },
            },
        ],
    )

    def send(first: int, last: int) -> None:
        for number in range(first, last):
            server.emit(account, "CALL", {"text": f"{number}"})

    def texts() -> list[str]:
        page = server.get(f"/event/list/{seen}?order=oldest&limit=100")
        return [one["data"]["text"] for one in page["events"]]

    def wait_until(condition: Callable[[], Any]) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < ends, (texts(), (tmp_path / "connect").read_text("utf-8"))
            time.sleep(0.2)

    command = [sys.executable, "-m", "hookgw", "connect", account, "--to", f"{n8n.url}/webhook/{path}"]
    with (tmp_path / "connect").open("wb") as output:
        environment = {**os.environ, "HOOKGW_URL": server.url, "HOOKGW_KEY": KEY}
        connect = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            wait_until(lambda: server.get(f"/webhook/find/{account}"))
            send(0, 3)
            wait_until(lambda: len(texts()) == 3)
            n8n.stop()
            send(3, 9)
            n8n.start()
            wait_until(lambda: len(texts()) == 9)
        finally:
            connect.terminate()
            connect.wait(30)
    said = (tmp_path / "connect").read_text("utf-8")
    assert texts() == [f"{number}" for number in range(9)], said

    server.post(f"/webhook/set/{account}/crm", {"url": f"{n8n.url}/webhook/{path}"}, status=201)
    server.post(f"/webhook/backfill/{account}/crm", {"since": "1d"}, status=202)
    wait_until(lambda: len(texts()) == 18)
    assert texts()[9:] == [f"{number}" for number in range(9)]
    for name in (account, seen):
        server.http.delete(f"/instance/delete/{name}")
