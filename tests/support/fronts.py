"""The proxies of docs/operations.md, each a program of its own in front of a gateway.

The configurations are the examples of the page, with other ports, names and files. Around an example stands
only what the distribution's own main file would have.
"""

import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import trustme

from tests.support.ports import free_port
from tests.support.processes import PATIENCE, started

PAGE = Path(__file__).parents[2] / "docs/operations.md"
PROGRAMS = {
    "nginx": "nginx",
    "caddyfile": "caddy",
    "haproxy": "haproxy",
    "apache": "apache2",
    "envoy": "envoy",
}
"""The program of each example, by the language of its block."""
_APACHE_MODULES = (
    *(
        "mpm_event",
        "authz_core",
        "proxy",
        "proxy_http",
        "ssl",
        "socache_shmcb",
        "headers",
        "filter",
        "deflate",
    ),
    "setenvif",
)


def example(language: str) -> str:
    """Return an example of the page."""
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert isinstance(found, str)
    return found


def find_program(language: str) -> str | None:
    """Return the path of the program that reads an example; ``None`` if it is not installed."""
    # Beside this Python is what pip has installed: Envoy.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"))
    return shutil.which(PROGRAMS[language], path=path)


@contextmanager
def front(language: str, folder: Path, gateway: str) -> Iterator[str]:
    """Run a proxy in front of a gateway until the end of the block.

    Args:
        language: of the example.
        folder: for the proxy's files.
        gateway: its ``host:port``.

    Yields:
        The proxy's URL. Its certificate is signed by nobody that a browser knows.
    """
    program = find_program(language)
    assert program is not None
    port = free_port()
    certificate = trustme.CA().issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    pem, key = folder / "hooks.example.pem", folder / "hooks.example.key"
    key.write_bytes(certificate.private_key_pem.bytes())
    pem.write_bytes(chain + (certificate.private_key_pem.bytes() if language == "haproxy" else b""))
    text = example(language).replace("127.0.0.1:8080", gateway).replace("/etc/ssl", str(folder))
    text = text.replace("port_value: 8080", f"port_value: {gateway.rpartition(':')[2]}")
    arguments, file = _COMMANDS[language](text, folder, port)
    env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    url = f"https://localhost:{port}"
    with started([*arguments, file], cwd=folder, env=env, program=program) as process:
        deadline = time.monotonic() + PATIENCE
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with httpx.Client(verify=context, trust_env=False, timeout=30) as http:
            while True:
                try:
                    if http.get(f"{url}/healthz").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                said = "".join(process.errors)
                assert process.popen.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
        try:
            yield url
        finally:
            process.popen.terminate()  # killed, nginx and Apache would leave their workers behind
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(5)  # Caddy waits for its streams


def _nginx(text: str, folder: Path, port: int) -> tuple[list[str], Path]:
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace(
        "server_name hooks.example", "server_name localhost"
    )
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1; events {{}}\n"
        f"http {{\naccess_log {folder}/access.log;\n{paths}gzip on;\n{text}\n}}\n"
    )
    return ["-p", str(folder), "-e", "stderr", "-c"], file


def _caddy(text: str, folder: Path, port: int) -> tuple[list[str], Path]:
    text = text.replace("hooks.example {", f"https://localhost:{port} {{\n    bind 127.0.0.1")
    file = folder / "Caddyfile"
    file.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n}}\n{text}")
    return ["run", "--adapter", "caddyfile", "--config"], file


def _haproxy(text: str, folder: Path, port: int) -> tuple[list[str], Path]:
    file = folder / "haproxy.cfg"
    file.write_text(text.replace("bind :443", f"bind 127.0.0.1:{port}"))
    return ["-db", "-f"], file


def _apache(text: str, folder: Path, port: int) -> tuple[list[str], Path]:
    text = text.replace("*:443", f"*:{port}").replace("ServerName hooks.example", "ServerName localhost")
    text = text.replace("/var/log/apache2", str(folder))
    modules = "".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in _APACHE_MODULES
    )
    user = "User www-data\nGroup www-data\n" if os.getuid() == 0 else ""
    file = folder / "apache.conf"
    file.write_text(
        f"ServerName localhost\nServerRoot {folder}\nDefaultRuntimeDir {folder}\n"
        f"PidFile {folder}/apache.pid\n"
        f"{modules}{user}ErrorLog {folder}/error.log\nListen 127.0.0.1:{port}\n"
        f'LogFormat "%h %l %u %t \\"%r\\" %>s %b" combined\n{text}'
    )
    return ["-D", "FOREGROUND", "-f"], file


def _envoy(text: str, folder: Path, port: int) -> tuple[list[str], Path]:
    text = text.replace("address: 0.0.0.0, port_value: 443", f"address: 127.0.0.1, port_value: {port}")
    file = folder / "envoy.yaml"
    file.write_text(text)
    # By their number, several on one machine would share memory.
    return ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error", "-c"], file


_COMMANDS = {"nginx": _nginx, "caddyfile": _caddy, "haproxy": _haproxy, "apache": _apache, "envoy": _envoy}
