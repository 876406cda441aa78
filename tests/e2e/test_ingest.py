"""A network that calls back, over the process: from the command that prints the URL to the receiver."""

import hashlib
import hmac
import json

import httpx
import pytest

from tests.support.gateway_process import ReceiverProcess, Server

pytestmark = pytest.mark.e2e

SECRET = "the-secret-of-the-network"


def test_from_the_network_to_the_receiver(server: Server, receiver: ReceiverProcess) -> None:
    options = {"app_secret": SECRET, "verify_token": "v", "connect_delay": 0, "rate": 0}
    server.post(
        "/instance/create", {"instanceName": "shop", "integration": "simulator", **options}, status=201
    )
    server.set("shop", receiver.url("/ingested"), events=["MESSAGES_UPSERT"])
    server.get("/instance/connect/shop")
    path = server.command("instance", "ingest-url", "shop")["ingestUrl"]
    body = json.dumps({"messages": [{"id": "wamid.A==", "from": "5511988887777", "text": "hello"}]}).encode()
    signature = {
        "x-hub-signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    }

    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as network:
        challenge = {"hub.mode": "subscribe", "hub.verify_token": "v", "hub.challenge": "1158201444"}
        checked = network.get(path, params=challenge)
        assert (checked.status_code, checked.text) == (200, "1158201444")
        assert (
            network.post(path, content=body, headers={"x-hub-signature-256": "sha256=0"}).status_code == 401
        )
        for _ in range(2):  # the network did not get the first answer
            assert network.post(path, content=body, headers=signature).status_code == 200
        arrival = receiver.next("/ingested").json
        assert arrival["data"]["message"] == {"conversation": "hello"}
        found = server.get("/delivery/list/shop?kind=MESSAGES_UPSERT")["deliveries"]
        assert len(found) == 1

        rotated = server.command("instance", "ingest-url", "shop", "--rotate")["ingestUrl"]
        assert network.post(path, content=body, headers=signature).status_code == 404
        assert network.post(rotated, content=body, headers=signature).status_code == 200
        server.http.delete("/instance/logout/shop")
        waiting = network.post(rotated, content=body, headers=signature)
        assert (waiting.status_code, "retry-after" in waiting.headers) == (503, True)
    assert path.rpartition("/")[2] not in "".join(server.process.errors)
