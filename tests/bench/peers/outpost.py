"""Outpost of Hookdeck: a tenant with one webhook destination for each destination.

It needs Redis, a log store (here PostgreSQL) and a message queue (here RabbitMQ).
"""

from pathlib import Path

from tests.bench.peers.processes import Child, run
from tests.bench.peers.servers import PostgreSQL, RabbitMQ, Redis
from tests.bench.peers.system import EVENT, LocalSystem, System, with_data
from tests.support.ports import free_port

KEY = "the-api-key-of-the-comparison"


class Outpost(System):
    """Its API, under ``/api/v1``."""

    name = "Outpost"
    version = "1.2.0"
    settings = (
        "all services in one process, its default",
        "DELIVERY_, LOG_ and PUBLISH_MAX_CONCURRENCY: 100, as in its own load tests; the default is 1",
        "RETRY_SCHEDULE: 1 s, ten times; the default begins with 30 s",
        "DISABLE_TELEMETRY, LOG_LEVEL: warn",
    )

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def healthy(self) -> bool:
        return self.answers("/api/v1/healthz")

    def create_destination(self, number: int, url: str) -> None:
        self.call("PUT", f"/api/v1/tenants/peer{number}")
        body = {"type": "webhook", "topics": "*", "config": {"url": url}}
        self.call("POST", f"/api/v1/tenants/peer{number}/destinations", body)

    def publish_request(self, number: int, data: bytes) -> bytes:
        body = {"tenant_id": f"peer{number}", "topic": EVENT}
        return self.request("/api/v1/publish", with_data(body, data))


class LocalOutpost(LocalSystem):
    """The program is ``outpost-server``; ``outpost``, which migrates, lies beside it."""

    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder, program)
        self._postgresql, self._redis, self._rabbitmq = PostgreSQL(folder), Redis(folder), RabbitMQ(folder)
        self.servers = (self._postgresql, self._redis, self._rabbitmq)
        self._port = free_port()

    def _env(self) -> dict[str, str]:
        return {
            "API_PORT": str(self._port),
            "API_KEY": KEY,
            "API_JWT_SECRET": "the-jwt-secret-of-the-comparison",
            "AES_ENCRYPTION_SECRET": "0123456789abcdef0123456789abcdef",
            "TOPICS": EVENT,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(self._redis.port),
            "POSTGRES_URL": self._postgresql.url,
            "RABBITMQ_SERVER_URL": self._rabbitmq.url,
            "PUBLISH_MAX_CONCURRENCY": "100",
            "DELIVERY_MAX_CONCURRENCY": "100",
            "LOG_MAX_CONCURRENCY": "100",
            "RETRY_SCHEDULE": ",".join(["1"] * 10),
            "DISABLE_TELEMETRY": "true",
            "LOG_LEVEL": "warn",
        }

    def set_up(self) -> System:
        run([self.program.with_name("outpost"), "migrate", "apply", "--yes"], env=self._env())
        return Outpost(f"http://127.0.0.1:{self._port}", KEY)

    def start_gateway(self) -> list[Child]:
        return [Child("outpost", [self.program], self.folder, env=self._env())]
