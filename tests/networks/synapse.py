"""A real Synapse as a process of its own."""

import base64
import json
import os
import sys
from pathlib import Path

from tests.networks.homeserver import SERVER_NAME, HomeserverProcess

_UNLIMITED = {"per_second": 100_000, "burst_count": 100_000}


class Synapse(HomeserverProcess):
    """A Synapse without limits.

    Args:
        folder: everything it writes is in there.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._write_config()

    def command(self) -> list[str]:
        """Return the command that runs it."""
        config = str(self.folder / "hs.yaml")
        return [sys.executable, "-m", "synapse.app.homeserver", "--config-path", config]

    def _write_config(self) -> None:
        folder = self.folder
        key = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {key}\n", encoding="ascii")
        config = {
            "server_name": SERVER_NAME,
            "pid_file": str(folder / "pid"),
            "listeners": [
                {
                    "bind_addresses": ["127.0.0.1"],
                    "port": self.port,
                    "type": "http",
                    "resources": [{"names": ["client", "media"]}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
            "media_store_path": str(folder / "media"),
            "signing_key_path": str(folder / "signing.key"),
            "macaroon_secret_key": "a secret of the tests",
            "form_secret": "another one",
            "report_stats": False,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "enable_registration": True,
            "enable_registration_without_verification": True,
            "bcrypt_rounds": 4,
            "rc_message": _UNLIMITED,
            "rc_registration": _UNLIMITED,
            "rc_login": {"address": _UNLIMITED, "account": _UNLIMITED, "failed_attempts": _UNLIMITED},
            "rc_joins": {"local": _UNLIMITED, "remote": _UNLIMITED},
            "rc_joins_per_room": _UNLIMITED,
            "rc_room_creation": _UNLIMITED,
            "rc_invites": {"per_room": _UNLIMITED, "per_user": _UNLIMITED, "per_issuer": _UNLIMITED},
            "rc_presence": {"per_user": _UNLIMITED},
            "rc_media_create": _UNLIMITED,
        }
        (folder / "hs.yaml").write_text(json.dumps(config), encoding="utf-8")
