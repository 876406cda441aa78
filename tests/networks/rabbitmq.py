"""A node of RabbitMQ, as Debian has it: its own ports, data and port mapper, all on loopback."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import trustme

from tests.support.ports import free_port

SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The server itself. The one on the path changes to the user ``rabbitmq`` first."""
_START_PATIENCE = 150.0
_STOP_PATIENCE = 30.0


def is_installed() -> bool:
    return SCRIPT.exists() and shutil.which("epmd") is not None


class RabbitMq:
    """A node that can be killed and started again on the same data.

    Args:
        folder: everything that it writes is in there.

    Attributes:
        port, tls_port: of 127.0.0.1, in plain text and with TLS.
        authority: has signed its certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.port, self.tls_port = free_port(), free_port()
        self.authority = trustme.CA()
        self._folder = folder
        self._mapper: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        certificate = self.authority.issue_cert("localhost", "127.0.0.1")
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        (folder / "plugins").write_text("[].\n", encoding="utf-8")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
            f"ssl_options.cacertfile = {folder}/ca.pem\n"
            f"ssl_options.certfile = {folder}/cert.pem\n"
            f"ssl_options.keyfile = {folder}/key.pem\n"
            "ssl_options.verify = verify_none\n"
            # The disk of a machine for tests may be nearly full.
            "disk_free_limit.absolute = 1MB\n",
            encoding="utf-8",
        )
        mapper = str(free_port())
        self._env: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),  # the cookie
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": mapper,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"hookgw{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # One scheduler, and no spinning: two cores are shared by the tests of all networks.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none "
            "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def url(self, *, tls: bool = False, user: str = "guest:guest") -> str:
        scheme, port = ("amqps", self.tls_port) if tls else ("amqp", self.port)
        return f"{scheme}://{user}@127.0.0.1:{port}/"

    def start(self) -> None:
        """Start the node, and wait until it accepts connections.

        Raises:
            AssertionError: it ended, or took too long.
        """
        if self._mapper is None:
            # Otherwise the node would start one that outlives it.
            self._mapper = self._run("epmd")
        self._node = self._run(str(SCRIPT))
        ends = time.monotonic() + _START_PATIENCE
        while time.monotonic() < ends and self._node.poll() is None:
            if self._is_listening():
                return
            time.sleep(0.1)
        log = (self._folder / "output.log").read_text("utf-8", "replace")
        raise AssertionError(f"RabbitMQ did not start:\n{log[-3000:]}")

    def kill(self) -> None:
        """``kill -9``."""
        if self._node is not None:
            os.killpg(self._node.pid, signal.SIGKILL)
            self._node.wait(_STOP_PATIENCE)
            self._node = None
            # The script has ended; the node that it started takes a moment longer.
            ends = time.monotonic() + _STOP_PATIENCE
            while self._is_listening() and time.monotonic() < ends:
                time.sleep(0.01)

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        """End the node and its port mapper."""
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait(_STOP_PATIENCE)
            self._mapper = None

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {"cwd": self._folder, "env": self._env, "stdin": subprocess.DEVNULL}
        with (self._folder / "output.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)
