"""A real Dendrite as a process of its own, with the limits that it has by default."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.networks.homeserver import SERVER_NAME, HomeserverProcess

_PARTS = (
    *("federation_api", "key_server", "media_api", "mscs", "relay_api", "room_server", "sync_api"),
    "user_api",
)


class Dendrite(HomeserverProcess):
    """A Dendrite.

    Args:
        programs: the folder with ``dendrite`` and ``generate-keys``.
        folder: everything it writes is in there.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        super().__init__(folder)
        self._programs = programs
        key = folder / "matrix_key.pem"
        subprocess.run([programs / "generate-keys", "--private-key", key], check=True, capture_output=True)
        config: dict[str, Any] = {
            "version": 2,
            "global": {
                "server_name": SERVER_NAME,
                "private_key": str(key),
                "disable_federation": True,
                "jetstream": {"storage_path": str(folder)},
            },
            # Without rate_limiting: five requests at once, and each place is free after half a second.
            "client_api": {"registration_disabled": False},
        }
        for part in _PARTS:
            database = "account_database" if part == "user_api" else "database"
            config[part] = {database: {"connection_string": f"file:{folder / part}.db"}}
        config["media_api"]["base_path"] = str(folder / "media")
        (folder / "dendrite.yaml").write_text(json.dumps(config), encoding="utf-8")

    def command(self) -> list[str]:
        """Return the command that runs it."""
        address = f"127.0.0.1:{self.port}"
        program, config = str(self._programs / "dendrite"), str(self.folder / "dendrite.yaml")
        options = ["--really-enable-open-registration", "--http-bind-address", address]
        return [program, "--config", config, *options]
