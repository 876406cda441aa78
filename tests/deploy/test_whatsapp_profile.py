"""From an empty folder to the first webhook: `hookgw init whatsapp`, its services, a code that is scanned."""

import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from click.testing import CliRunner

from hookgw.testing import open_receiver
from tests.public.command import main
from tests.support.compose import read_env, receivers_beside_hookgw, services_of
from tests.support.neighbours import ROOT, Neighbour, run_neighbours

pytestmark = pytest.mark.process

RECEIVER = "172.18.0.4"
WAHA = [sys.executable, "-m", "tests.networks.waha", "--port", "3000", "--host"]


HOOKGW_KEY = "key.txt"


def initialised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the command in a folder, without Docker; return what it says."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("hookgw.app.init.has_compose", lambda: False)
    done = CliRunner().invoke(main, ["init", "whatsapp"])
    assert done.exit_code == 0, done.output
    key = read_env(folder / ".env")["HOOKGW_GLOBAL_KEY"]
    (folder / HOOKGW_KEY).write_text(key, encoding="utf-8")
    return done.output


def test_the_services_of_compose_bring_the_first_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialised(tmp_path, monkeypatch)
    services = services_of(tmp_path / "compose.yaml", read_env(tmp_path / ".env"), ["whatsapp"])
    # The image's own, but for the volume.
    image = re.findall(r"(HOOKGW_SERVER__BIND)='(.+)'", (ROOT / "Dockerfile").read_text("utf-8"))
    hookgw = {**dict(image), "HOOKGW_STORAGE__PATH": f"{tmp_path}/hookgw.db"}
    neighbours: dict[str, Neighbour] = {
        "hookgw": {
            "address": "172.18.0.2",
            "command": [sys.executable, "-m", "hookgw", "serve"],
            "environment": {**hookgw, **services["hookgw"]["environment"], **receivers_beside_hookgw()},
        },
        "waha": {
            "address": "172.18.0.3",
            "command": [*WAHA, "172.18.0.3"],
            "environment": services["waha"]["environment"],
        },
        "n8n": {"address": RECEIVER, "command": (), "environment": {}},
    }
    run_neighbours(neighbours, f"{__name__}:scan_and_receive", tmp_path)


def test_what_the_command_says_without_compose_brings_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = initialised(tmp_path, monkeypatch)
    paragraphs = re.findall(r"(?:^    .+\n)+", said, re.MULTILINE)
    [gowa, hookgw] = [f"cd '{tmp_path}'\n" + textwrap.dedent(one) for one in paragraphs]
    (tmp_path / "whatsapp").write_text(
        f"#!/bin/sh\n[ $1 = rest ] && cd '{ROOT}' && exec '{sys.executable}' -m tests.networks.gowa\n",
        "utf-8",
    )
    (tmp_path / "whatsapp").chmod(0o755)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    neighbours: dict[str, Neighbour] = {
        "hookgw": {
            "address": "127.0.0.1",
            "command": ["sh", "-ec", hookgw],
            "environment": {**path, **receivers_beside_hookgw()},
        },
        "gowa": {"address": "127.0.0.1", "command": ["sh", "-ec", gowa], "environment": path},
        "n8n": {"address": RECEIVER, "command": (), "environment": {}},
    }
    run_neighbours(neighbours, f"{__name__}:scan_and_receive_by_gowa", tmp_path)


def scan_and_receive(folder: Path) -> None:
    """Create an instance without options, scan its code, and receive a message as a webhook."""
    network = "http://waha:3000", "/ping", "default", "5511988887777@c.us"
    trio.run(_scan_and_receive, (folder / HOOKGW_KEY).read_text("utf-8"), *network)


def scan_and_receive_by_gowa(folder: Path) -> None:
    """The same with GOWA, whose device has the instance's name."""
    network = "http://gowa:3000", "/app/info", "shop", "5511988887777@s.whatsapp.net"
    trio.run(_scan_and_receive, (folder / HOOKGW_KEY).read_text("utf-8"), *network)


async def _scan_and_receive(key: str, network: str, alive: str, account: str, sender: str) -> None:
    with trio.fail_after(40):
        async with (
            open_receiver(host=RECEIVER) as receiver,
            httpx.AsyncClient(headers={"apikey": key}, trust_env=False, verify=False, timeout=30) as http,
        ):

            async def call(method: str, url: str, body: Any = None) -> Any:
                answer = await http.request(method, url, json=body)
                assert answer.is_success, answer.text
                return answer.json()

            await until_it_answers(http, "http://hookgw:8080/readyz")
            await until_it_answers(http, network + alive)
            create = {"instanceName": "shop", "integration": "WHATSAPP-BAILEYS"}
            await call("POST", "http://hookgw:8080/instance/create", create)
            url = receiver.url.replace(RECEIVER, "n8n")
            await call("POST", "http://hookgw:8080/webhook/set/shop", {"url": url})
            shown = await call("GET", "http://hookgw:8080/instance/connect/shop")
            assert shown["code"]
            await call("POST", f"{network}/fake/{account}/scan")
            await call("POST", f"{network}/fake/{account}/receive", {"chat": sender, "body": "hi"})
            events: list[dict[str, Any]] = []
            while "MESSAGES_UPSERT" not in {event["event"] for event in events}:
                await receiver.wait_for(len(events) + 1)
                events = receiver.events()
            assert json.dumps(events).count('"conversation": "hi"') == 1


async def until_it_answers(http: httpx.AsyncClient, url: str) -> None:
    """Wait until a program that has just been started answers."""
    while True:
        try:
            answer = await http.get(url)
        except httpx.ConnectError:
            await trio.sleep(0.05)
            continue
        if answer.status_code < 500:
            return
        await trio.sleep(0.05)
