"""Evolution API: an instance of its own channel with one webhook for each destination.

It publishes what WhatsApp sends; its channel ``EVOLUTION`` takes messages over HTTP in the place of WhatsApp.
It needs PostgreSQL, and runs from compose.yaml. It answers before an event is stored, and retries in memory.
"""

from tests.bench.peers.system import System, with_data


class Evolution(System):
    """Its API; the key is ``AUTHENTICATION_API_KEY``."""

    name = "Evolution API"
    version = "2.3.6"
    settings = ("LOG_LEVEL: ERROR", "TELEMETRY_ENABLED: false")

    def headers(self) -> dict[str, str]:
        return {"apikey": self.key}

    def healthy(self) -> bool:
        return self.answers("/")

    def create_destination(self, number: int, url: str) -> None:
        body = {
            "instanceName": f"peer{number}",
            "integration": "EVOLUTION",
            "number": f"peer{number}",
            "webhook": {"enabled": True, "url": url, "byEvents": False, "events": ["MESSAGES_UPSERT"]},
        }
        self.call("POST", "/instance/create", body)

    def publish_request(self, number: int, data: bytes) -> bytes:
        body = {
            "numberId": f"peer{number}",
            "key": {"remoteJid": f"{number}@s.whatsapp.net", "fromMe": False, "id": None},
            "pushName": "peers",
            "messageType": "conversation",
        }
        return self.request("/webhook/evolution", with_data(body, data, field="message"))
