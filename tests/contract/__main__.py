"""Runs schemathesis against a running gateway and exits with its exit code, 0 for no findings."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.gateway_process import KEY, Server, receiving, serving

HERE = Path(__file__).parent
THOROUGH = ["--checks", "all", "--max-examples", "50"]
"""All checks, and this many generated requests per operation besides the fixed ones."""


def main(arguments: list[str]) -> int:
    """Run schemathesis with further options of ``schemathesis run``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with receiving(folder) as receiver, serving(folder, **settings(receiver.root)) as server:
            fill(server, receiver.root)
            env = os.environ | {
                "PYTHONPATH": str(HERE.parents[1]),
                "HOOKGW_CONTRACT_RECEIVER": receiver.root,
                "HOOKGW_CONTRACT_KEY": KEY,
                "SCHEMATHESIS_HOOKS": "tests.contract.hooks",
            }
            program = [sys.executable, "-m", "schemathesis.cli"]
            config = ["--config-file", str(HERE / "schemathesis.toml")]
            command = [*program, *config, "run", f"{server.url}/openapi.json", *THOROUGH, *arguments]
            return subprocess.run(command, cwd=folder, env=env, check=False).returncode


def settings(receiver: str) -> dict[str, dict[str, object]]:
    """Return settings with which every route can succeed.

    Wrong keys are part of the trial, so they are not limited. Plugins that check their options of
    registrations stay out: no schema says what each takes.
    """
    return {
        "auth": {"failed_attempts": 0},
        "operations": {"url": f"{receiver}/operations"},
        "plugins": {"disabled": ["evolution_envelope", "message_filters"]},
    }


def fill(server: Server, receiver: str) -> None:
    """Create an instance with a connector and one without, each with deliveries."""
    server.post("/instance/create", {"instanceName": "loja1", "integration": "simulator"}, status=201)
    server.get("/instance/connect/loja1")
    for instance in ("loja1", "loja2"):
        for label in ("default", "crm"):
            server.post(f"/webhook/set/{instance}/{label}", {"url": f"{receiver}/{label}"}, status=201)
        server.emit(instance, "MESSAGES_UPSERT", id="msg_1")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
