"""Runs schemathesis against a running gateway, then generates two clients and calls it with them."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.contract.generators import try_generators
from tests.contract.serving import gateway
from tests.support.gateway_process import KEY, Server

HERE = Path(__file__).parent
THOROUGH = ["--checks", "all", "--max-examples", "50"]
"""All checks, and this many generated requests per operation besides the fixed ones."""


def main(arguments: list[str]) -> int:
    """Run schemathesis with further options of ``schemathesis run``, then the generators.

    Two options are ours, and of the gateway: ``--engine postgresql``, its storage, and
    ``--compatibility evolution``, without generators.
    """
    parser = argparse.ArgumentParser("contract", add_help=False, allow_abbrev=False)
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--compatibility", choices=["hookgw", "evolution"], default="hookgw")
    known, arguments = parser.parse_known_args(arguments)
    with gateway(known.engine, known.compatibility) as (server, receiver):
        fill(server, receiver)
        env = os.environ | {
            "PYTHONPATH": str(HERE.parents[1]),
            "HOOKGW_CONTRACT_RECEIVER": receiver,
            "HOOKGW_CONTRACT_KEY": KEY,
            "SCHEMATHESIS_HOOKS": "tests.contract.hooks",
        }
        program = [sys.executable, "-m", "schemathesis.cli"]
        config = ["--config-file", str(HERE / "schemathesis.toml")]
        command = [*program, *config, "run", f"{server.url}/openapi.json", *THOROUGH, *arguments]
        code = subprocess.run(command, cwd=server.folder, env=env, check=False).returncode
    is_fine = known.compatibility == "evolution" or try_generators(("python", "typescript"))
    return code or (0 if is_fine else 1)


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
