"""hookgw as the first process of a container, whose default actions for signals the kernel ignores."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.public.command import ONE_SIGNAL
from tests.support.processes import PATIENCE
from tests.surroundings.surrounded import surrounded

pytestmark = pytest.mark.process


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_first_process_of_a_container(
    tmp_path: Path, second: signal.Signals
) -> None:
    first_process = ["unshare", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*first_process, "true"], check=False).returncode:
        pytest.skip("This needs PID namespaces (unshare --pid), which this machine does not allow.")
    hanging = socket.socket()
    hanging.bind(("127.0.0.1", 0))
    hanging.listen()
    with hanging, surrounded(tmp_path, prefix=first_process, server={"shutdown_grace": "1h"}) as gateway:
        gateway.wait_ready()
        gateway.register("shop", f"http://127.0.0.1:{hanging.getsockname()[1]}/", timeout="60s")
        gateway.emit("shop")
        connection, _ = hanging.accept()
        [number] = Path(f"/proc/{gateway.popen.pid}/task/{gateway.popen.pid}/children").read_text().split()
        with connection:
            os.kill(int(number), signal.SIGTERM)
            _wait_refused(gateway.http.base_url.port or 0)
            assert gateway.popen.poll() is None  # an attempt is in flight, and may take an hour
            time.sleep(ONE_SIGNAL)  # what comes sooner is the first signal once more
            os.kill(int(number), second)
            assert gateway.popen.wait(PATIENCE) == 128 + second


def test_a_stop_reaches_it_although_its_parent_has_blocked_the_signal(tmp_path: Path) -> None:
    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    with surrounded(tmp_path, before=block) as gateway:
        gateway.wait_ready()
        assert gateway.stop() == 0


def _wait_refused(port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)
    raise AssertionError("it still listens")
