"""WebhookX: one source for all events, and an endpoint with an event type of its own for each destination.

It needs PostgreSQL and Redis. An event is answered when it is committed to PostgreSQL (``async: false``, the
default of a source); with ``async: true`` it is only in Redis then, which syncs once a second.
"""

import time
from pathlib import Path

import httpx

from tests.bench.peers.processes import Child, run
from tests.bench.peers.servers import PostgreSQL, Redis
from tests.bench.peers.system import LocalSystem, System, with_data
from tests.support.ports import free_port

PATH = "/workspaces/default"


class WebhookX(System):
    """Its admin API, and its proxy where events are published: the key is the URL of that."""

    name = "WebhookX"
    version = "1.2.0"
    settings = (
        "all roles in one process, its default",
        "worker.deliverer.acl.deny: without @loopback, for receivers on this machine",
        "endpoints retry after 1 s, ten times; the default is 60 s",
        "access_log.enabled and anonymous_reports: false, log.level: warn",
    )

    @property
    def publish_port(self) -> int:
        port = httpx.URL(self.key).port
        assert port is not None
        return port

    def headers(self) -> dict[str, str]:
        return {}

    def healthy(self) -> bool:
        try:
            httpx.get(self.key, timeout=2, trust_env=False)  # 404 as long as there is no source
        except httpx.HTTPError:
            return False
        return self.answers("/")

    def create_destination(self, number: int, url: str) -> None:
        if number == 0:
            self.call("POST", f"{PATH}/sources", {"config": {"http": {"path": "/", "methods": ["POST"]}}})
            # The proxy looks for new sources once a second.
            while httpx.post(self.key, json={}, trust_env=False).status_code == 404:
                time.sleep(0.1)
        endpoint = {
            "request": {"url": url},
            "events": [f"peer{number}.event"],
            "retry": {"strategy": "fixed", "config": {"attempts": [0, *[1] * 10]}},
        }
        self.call("POST", f"{PATH}/endpoints", endpoint)

    def publish_request(self, number: int, data: bytes) -> bytes:
        return self.request("/", with_data({"event_type": f"peer{number}.event"}, data))


class LocalWebhookX(LocalSystem):
    """The program is ``webhookx``."""

    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder, program)
        self._postgresql, self._redis = PostgreSQL(folder), Redis(folder)
        self.servers = (self._postgresql, self._redis)
        self._proxy, self._admin, self._status = free_port(), free_port(), free_port()

    def _env(self) -> dict[str, str]:
        return {
            "WEBHOOKX_LOG_LEVEL": "warn",
            "WEBHOOKX_ACCESS_LOG_ENABLED": "false",
            "WEBHOOKX_ANONYMOUS_REPORTS": "false",
            "WEBHOOKX_DATABASE_HOST": "127.0.0.1",
            "WEBHOOKX_DATABASE_PORT": str(self._postgresql.port),
            "WEBHOOKX_DATABASE_USERNAME": "peers",
            "WEBHOOKX_DATABASE_DATABASE": "peers",
            "WEBHOOKX_REDIS_HOST": "127.0.0.1",
            "WEBHOOKX_REDIS_PORT": str(self._redis.port),
            "WEBHOOKX_PROXY_LISTEN": f"127.0.0.1:{self._proxy}",
            "WEBHOOKX_PROXY_QUEUE_REDIS_HOST": "127.0.0.1",
            "WEBHOOKX_PROXY_QUEUE_REDIS_PORT": str(self._redis.port),
            "WEBHOOKX_ADMIN_LISTEN": f"127.0.0.1:{self._admin}",
            "WEBHOOKX_STATUS_LISTEN": f"127.0.0.1:{self._status}",
            "WEBHOOKX_WORKER_DELIVERER_ACL_DENY": "@private,@linklocal,@reserved",
        }

    def set_up(self) -> System:
        run([self.program, "db", "up"], env=self._env())
        return WebhookX(f"http://127.0.0.1:{self._admin}", f"http://127.0.0.1:{self._proxy}/")

    def start_gateway(self) -> list[Child]:
        return [Child("webhookx", [self.program, "start"], self.folder, env=self._env())]
