"""``hookgw apply`` of many instances, killed in the middle, and run again: everything is there once."""

import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.gateway_process import KEY, Server, serving
from tests.support.processes import PATIENCE, started

pytestmark = pytest.mark.e2e

INSTANCES = [f"loja{number:03}" for number in range(200)]
TENANTS = [f"t{number:02}" for number in range(20)]
URL = "http://127.0.0.1:9/hook"
DOCUMENT = {
    "name": "accounts",
    "instances": {
        name: {"tags": {"tenant": TENANTS[number % 20]}, "webhooks": {"crm": {"url": URL}}}
        for number, name in enumerate(INSTANCES)
    },
    "keys": {one: {"tags": {"tenant": one}, "rights": ["read"], "file": f"keys/{one}"} for one in TENANTS},
}


def apply(server: Server) -> Any:
    arguments = ["-m", "hookgw", "apply", "-f", "accounts.yaml", "--yes"]
    return started(arguments, cwd=server.folder, env={"HOOKGW_URL": server.url, "HOOKGW_KEY": KEY})


def wait_for_some(server: Server) -> None:
    """Wait until a part of the instances is there."""
    until = time.monotonic() + PATIENCE
    while len(server.get("/instance/fetchInstances")) < len(INSTANCES) // 10:
        assert time.monotonic() < until, "nothing was made"


@pytest.mark.parametrize("killed", ["server", "command"])
def test_an_apply_that_was_killed_is_completed_by_the_next(killed: str, tmp_path: Path) -> None:
    (tmp_path / "accounts.yaml").write_text(yaml.safe_dump(DOCUMENT), encoding="utf-8")
    with serving(tmp_path) as server, apply(server) as command:
        wait_for_some(server)
        if killed == "server":
            server.process.stop(signal.SIGKILL)
        # It would try each part again for a while, in case that the server comes back.
        assert command.stop(signal.SIGKILL) == -signal.SIGKILL
        # Not one of the keys was in a file under its name: keys come last.
        assert len(list(tmp_path.glob("keys/*"))) < len(TENANTS)
        if killed == "command":
            assert server.process.stop() == 0
    with serving(tmp_path) as server:
        with apply(server) as command:
            assert command.exit_code() == 0, command.errors
        check_all_is_there_once(server)
        with apply(server) as command:
            assert command.exit_code() == 0
        assert "Nothing to change" in "".join(command.errors)  # all of them: its readers have ended
        check_all_is_there_once(server)
        assert server.process.stop() == 0


def check_all_is_there_once(server: Server) -> None:
    assert [one["name"] for one in server.get("/instance/fetchInstances")] == INSTANCES
    listed = server.get("/webhook/list?limit=1000")["registrations"]
    assert [(one["instance"], one["label"]) for one in listed] == [(name, "crm") for name in INSTANCES]
    assert sorted(file.name for file in (server.folder / "keys").iterdir()) == TENANTS
    for number, tenant in enumerate(TENANTS):
        key = (server.folder / "keys" / tenant).read_text(encoding="ascii").strip()
        with httpx.Client(
            base_url=server.url, headers={"apikey": key}, trust_env=False, timeout=30, verify=False
        ) as own:
            found = [one["name"] for one in own.get("/instance/fetchInstances").json()]
        assert found == INSTANCES[number::20], tenant
    names = [one["name"] for one in server.get("/key/list")]
    assert sorted(name for name in names if name in TENANTS) == TENANTS
