"""hookgw: an instance with one registration for each destination."""

from pathlib import Path

import yaml

from hookgw import __version__
from tests.bench.peers.processes import Child
from tests.bench.peers.system import LocalSystem, System, with_data
from tests.support.ports import free_port

KEY = "the-global-key-of-the-comparison"


class HookGW(System):
    """Its own interface."""

    name = "hookgw"
    version = __version__
    settings = ("delivery.allow_networks: 127.0.0.0/8, for receivers on this machine",)

    def headers(self) -> dict[str, str]:
        return {"apikey": self.key}

    def healthy(self) -> bool:
        return self.answers("/healthz")

    def create_destination(self, number: int, url: str) -> None:
        self.call("POST", f"/webhook/set/peer{number}", {"url": url})

    def publish_request(self, number: int, data: bytes) -> bytes:
        return self.request(f"/event/emit/peer{number}", with_data({"event": "MESSAGES_UPSERT"}, data))


class LocalHookGW(LocalSystem):
    """hookgw alone; it needs no server. The program is a Python that has hookgw, or its binary."""

    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder, program)
        self._port = free_port()

    def set_up(self) -> System:
        config = {
            "server": {"bind": [f"127.0.0.1:{self._port}"]},
            "auth": {"global_key": KEY},
            "storage": {"path": str(self.folder / "hookgw.db")},
            "delivery": {"allow_networks": ["127.0.0.0/8"]},
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        (self.folder / "config.yaml").chmod(0o600)
        return HookGW(f"http://127.0.0.1:{self._port}", KEY)

    def start_gateway(self) -> list[Child]:
        module = ["-m", "hookgw"] if self.program.name.startswith("python") else []
        command: list[str | Path] = [self.program, *module, "serve", "--config", self.folder / "config.yaml"]
        return [Child("hookgw", command, self.folder)]
