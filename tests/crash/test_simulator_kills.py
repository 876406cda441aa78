"""The simulator's messages continue after kills of the process: each is raised once, in order."""

import random
import signal
import time
from pathlib import Path

import pytest

from plugins.simulator.traffic import incoming
from tests.crash.engines import Storage
from tests.support.gateway_process import receiving, serving

MESSAGES = 300


@pytest.mark.crash
@pytest.mark.e2e
def test_the_messages_continue_after_kills(tmp_path: Path, storage: Storage) -> None:
    moments = random.Random(1)
    with receiving(tmp_path) as receiver:
        for run in range(4):
            with serving(tmp_path, storage=storage.settings) as gateway:
                if run == 0:
                    options = {"rate": 150, "messages": MESSAGES, "seed": 7, "qr_code": False}
                    shop = {"instanceName": "shop", "integration": "simulator", "connect_delay": "50ms"}
                    gateway.post("/instance/create", {**shop, **options}, status=201)
                    gateway.set("shop", receiver.url("/hook"), events=["MESSAGES_UPSERT"])
                    gateway.get("/instance/connect/shop")
                if run < 3:
                    time.sleep(moments.uniform(0.2, 0.6))
                    gateway.process.stop(signal.SIGKILL)
                    continue
                # A delivery whose outcome was not stored is repeated with its id: that is no second event.
                ids: dict[str, str] = {}
                while len(ids) < MESSAGES:
                    arrival = receiver.next("/hook")
                    ids.setdefault(arrival.headers["webhook-id"], arrival.json["data"]["key"]["id"])
    expected = [incoming(random.Random(f"7 shop {number}"), 10, 0) for number in range(MESSAGES)]
    assert list(ids.values()) == [message["key"]["id"] for message in expected]
