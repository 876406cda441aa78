"""A whole n8n as a process of its own, with the nodes of Evolution API."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

_START_PATIENCE = 300.0
_OWNER = {"email": "ana@hs.test", "firstName": "Ana", "lastName": "Lima", "password": "Only-for-tests-1"}


class N8nProcess:
    """A running n8n.

    Args:
        packages: the folder whose ``node_modules`` has n8n and n8n-nodes-evolution-api.
        folder: everything it writes is in there.
        postgres: where it gets a database: SQLite would need a native module. Listens on 127.0.0.1.

    Attributes:
        url: of its editor, its API and its webhooks.
        http: a client that is logged in.
    """

    def __init__(self, packages: Path, folder: Path, postgres: PostgresServer) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)
        postgres.execute("CREATE DATABASE n8n")
        modules = packages / "node_modules"
        off = ("DIAGNOSTICS", "VERSION_NOTIFICATIONS", "TEMPLATES", "PERSONALIZATION", "RUNNERS")
        self._folder = folder
        self._program = modules / "n8n" / "bin" / "n8n"
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "N8N_USER_FOLDER": str(folder),
            "N8N_PORT": str(port),
            "N8N_LISTEN_ADDRESS": "127.0.0.1",
            "N8N_ENCRYPTION_KEY": "the-encryption-key-of-the-tests",
            "N8N_SECURE_COOKIE": "false",
            **{f"N8N_{name}_ENABLED": "false" for name in off},
            # The other engine needs isolated-vm, which is compiled with node-gyp; see isolated_vm/ here.
            "N8N_EXPRESSION_ENGINE": "legacy",
            "N8N_CUSTOM_EXTENSIONS": str(modules / "n8n-nodes-evolution-api" / "dist"),
            "DB_TYPE": "postgresdb",
            "DB_POSTGRESDB_HOST": "127.0.0.1",
            "DB_POSTGRESDB_PORT": str(postgres.port),
            "DB_POSTGRESDB_DATABASE": "n8n",
            "DB_POSTGRESDB_USER": "hookgw",
            "DB_POSTGRESDB_PASSWORD": "not-asked-for",
        }
        self.start()
        self.call("POST", "/rest/owner/setup", _OWNER)

    def start(self) -> None:
        """Start it, again after :meth:`stop`. Returns when it answers."""
        output = self._folder / "output"
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                [shutil.which("node") or "node", self._program, "start"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_PATIENCE
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                said = output.read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"n8n did not start; its output ends:\n{said[-3000:]}")
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            # It answers with a page while it makes its tables.
            return self.http.get("/rest/settings").headers["content-type"].startswith("application/json")
        except (httpx.HTTPError, KeyError):
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request of its editor; return the data of the answer."""
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def activate(self, name: str, nodes: list[dict[str, Any]]) -> str:
        """Make a workflow of nodes, one after the other, and switch it on; return its id."""
        links = [{"node": node["name"], "type": "main", "index": 0} for node in nodes[1:]]
        pairs = zip(nodes, links, strict=False)
        workflow = {
            "name": name,
            "nodes": [
                {"id": str(number), "position": [200 * number, 0], **node}
                for number, node in enumerate(nodes)
            ],
            "connections": {node["name"]: {"main": [[link]]} for node, link in pairs},
            "settings": {"executionOrder": "v1"},
            "active": False,
        }
        made = self.call("POST", "/rest/workflows", workflow)
        switched = {"active": True, "versionId": made["versionId"]}
        self.call("PATCH", f"/rest/workflows/{made['id']}", switched)
        return str(made["id"])

    def close(self) -> None:
        """End it, with what it has started."""
        self.http.close()
        self.stop()

    def stop(self) -> None:
        """Kill it, with what it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
