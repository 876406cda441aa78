"""Svix: an application with one endpoint for each destination.

It needs PostgreSQL and Redis. It is written in Rust, and runs from compose.yaml.
"""

from tests.bench.peers.system import EVENT, System, with_data


class Svix(System):
    """Its API, under ``/api/v1``; the key is what ``svix-server jwt generate`` prints."""

    name = "Svix"
    version = "1.100.0"
    settings = (
        "SVIX_WHITELIST_SUBNETS: 127.0.0.0/8, for receivers on this machine",
        "SVIX_RETRY_SCHEDULE: 1 s, ten times; the default begins with 5 s",
    )

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def healthy(self) -> bool:
        return self.answers("/api/v1/health/")

    def create_destination(self, number: int, url: str) -> None:
        self.call("POST", "/api/v1/app/", {"name": f"peer{number}", "uid": f"peer{number}"})
        self.call("POST", f"/api/v1/app/peer{number}/endpoint/", {"url": url})

    def publish_request(self, number: int, data: bytes) -> bytes:
        body = with_data({"eventType": EVENT}, data, field="payload")
        return self.request(f"/api/v1/app/peer{number}/msg/", body)
