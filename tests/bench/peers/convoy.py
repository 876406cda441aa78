"""Convoy of Frain: an endpoint with a subscription for each destination, in one outgoing project.

It needs PostgreSQL and Redis. Its API and its agent, which delivers, are two processes.
"""

import json
import re
from pathlib import Path

from tests.bench.peers.processes import Child, run
from tests.bench.peers.servers import PostgreSQL, Redis
from tests.bench.peers.system import EVENT, LocalSystem, System, with_data
from tests.support.ports import free_port


class Convoy(System):
    """Its API, under ``/api/v1``; the key is a personal API key and, after a space, an organisation's id."""

    name = "Convoy"
    version = "26.7.1"
    settings = (
        "one server and one agent, as in its own compose file, without its PgBouncer",
        "without a licence, as it is for everybody without one",
        "CONVOY_API_RATE_LIMIT and CONVOY_INSTANCE_INGEST_RATE: 100,000/s; the default is 1,000/s",
        "CONVOY_DISPATCHER_BLOCK_LIST: none that concerns receivers on this machine",
        "the project retries after 1 s, ten times",
        "CONVOY_ANALYTICS_ENABLED: false, CONVOY_LOGGER_LEVEL: error",
    )

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self._endpoints: dict[int, str] = {}
        self._project = ""

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key.partition(' ')[0]}"}

    def healthy(self) -> bool:
        return self.answers("/healthz")

    def create_destination(self, number: int, url: str) -> None:
        if not self._project:
            self._project = self._create_project()
        endpoint = {"name": f"peer{number}", "url": url, "secret": "a-secret-of-the-comparison"}
        made = self.call("POST", f"/api/v1/projects/{self._project}/endpoints", endpoint)
        self._endpoints[number] = made["data"]["uid"]
        subscription = {"name": f"peer{number}", "endpoint_id": self._endpoints[number]}
        self.call("POST", f"/api/v1/projects/{self._project}/subscriptions", subscription)

    def _create_project(self) -> str:
        config = {
            "strategy": {"type": "linear", "duration": 1, "retry_count": 10},
            "signature": {
                "header": "X-Convoy-Signature",
                "versions": [{"hash": "SHA256", "encoding": "hex"}],
            },
            "ssl": {"enforce_secure_endpoints": False},
        }
        body = {"name": "peers", "type": "outgoing", "config": config}
        organisation = self.key.partition(" ")[2]
        made = self.call("POST", f"/api/v1/projects?orgID={organisation}", body)
        return str(made["data"]["project"]["uid"])

    def publish_request(self, number: int, data: bytes) -> bytes:
        body = {"endpoint_id": self._endpoints[number], "event_type": EVENT}
        return self.request(f"/api/v1/projects/{self._project}/events", with_data(body, data))


class LocalConvoy(LocalSystem):
    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder, program)
        self._postgresql, self._redis = PostgreSQL(folder, connections=300), Redis(folder)
        self.servers = (self._postgresql, self._redis)
        self._api, self._agent = free_port(), free_port()

    def _env(self) -> dict[str, str]:
        return {
            "CONVOY_DB_HOST": "127.0.0.1",
            "CONVOY_DB_PORT": str(self._postgresql.port),
            "CONVOY_DB_USERNAME": "peers",
            "CONVOY_DB_PASSWORD": "none",
            "CONVOY_DB_DATABASE": "peers",
            "CONVOY_DB_OPTIONS": "sslmode=disable&connect_timeout=30",
            "CONVOY_REDIS_SCHEME": "redis",
            "CONVOY_REDIS_HOST": "127.0.0.1",
            "CONVOY_REDIS_PORT": str(self._redis.port),
            "CONVOY_JWT_SECRET": "a-jwt-secret-of-the-comparison",
            "CONVOY_JWT_REFRESH_SECRET": "another-jwt-secret-of-the-comparison",
            "CONVOY_HOST": f"127.0.0.1:{self._api}",
            "CONVOY_API_RATE_LIMIT": "100000",
            "CONVOY_INSTANCE_INGEST_RATE": "100000",
            "CONVOY_DISPATCHER_BLOCK_LIST": "192.0.2.0/24",
            "CONVOY_DISPATCHER_SKIP_PING_VALIDATION": "true",
            "CONVOY_ANALYTICS_ENABLED": "false",
            "CONVOY_LOGGER_LEVEL": "error",
            "PORT": str(self._api),
            "AGENT_PORT": str(self._agent),
        }

    def _command(self, *words: str) -> list[str | Path]:
        return [self.program, *words, "--config", self.folder / "convoy.json"]

    def set_up(self) -> System:
        (self.folder / "convoy.json").write_text("{}")
        run(self._command("migrate", "up"), env=self._env())
        seed = ("bootstrap", "--email", "peers@example.com", "--first-name", "P", "--last-name", "P")
        printed = run(self._command(*seed, "--with-api-key", "--format", "json"), env=self._env())
        # Its log lines are before it, and after it.
        found = re.search(r"^\{$.*?^\}$", printed, re.MULTILINE | re.DOTALL)
        assert found is not None, printed
        made = json.loads(found[0])
        return Convoy(f"http://127.0.0.1:{self._api}", f"{made['api_key']} {made['organisation_id']}")

    def start_gateway(self) -> list[Child]:
        return [
            Child(f"convoy-{role}", self._command(role), self.folder, env=self._env())
            for role in ("server", "agent")
        ]
