"""The recorded server: ``hookgw serve``, and clients in threads that say which requests got 201 and 202."""

import json
import os
import signal
import socket
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.public.command import main as hookgw
from tests.simulation.power.account import INSTANCES
from tests.simulation.power.tracing import mark
from tests.support.gateway_process import KEY, write_config

EVENTS = 25
"""How many events each client emits."""


class _Client(HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def post(self, path: str, body: Any) -> int:
        self.request("POST", path, json.dumps(body), {"apikey": KEY, "content-type": "application/json"})
        with self.getresponse() as answer:
            answer.read()
            return answer.status


def configure(folder: Path) -> None:
    """Write the configuration, before anything is recorded."""
    data, bind = str(folder / "data" / "hookgw.db"), f"unix:{folder / 'socket'}"
    write_config(folder, server={"bind": [bind]}, storage={"path": data, "min_free": 0})


def serve(folder: Path) -> None:
    """Serve until the clients are done, and end as in a power cut: killed."""
    clients = [threading.Thread(target=_emit, args=(folder, name), daemon=True) for name in INSTANCES]
    threading.Thread(target=_end_after, args=(clients,), daemon=True).start()
    hookgw(["serve", "--config", str(folder / "config.yaml")])


def _end_after(clients: list[threading.Thread]) -> None:
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _emit(folder: Path, instance: str) -> None:
    place = folder / "socket"
    while not place.exists():
        time.sleep(0.01)
    client = _Client(place)
    # Nothing listens there: what is delivered stays pending, and is settled as such.
    webhook = {"url": "http://127.0.0.1:9/", "enabled": True}
    if client.post("/instance/create", {"instanceName": instance, "webhook": webhook}) == 201:
        mark(json.dumps({"accepted": instance, "count": 0}).encode())
    for count in range(1, EVENTS + 1):
        body = {"event": "MESSAGES_UPSERT", "id": f"e{count}", "data": {"text": "x" * 50 * count}}
        if client.post(f"/event/emit/{instance}", body) != 202:
            raise RuntimeError(f"The event {count} of {instance} was refused.")
        mark(json.dumps({"accepted": instance, "count": count}).encode())
