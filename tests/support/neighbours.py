"""Programs beside each other, under names and addresses of their own, like the containers of one network.

As a program in namespaces of its own (:func:`run_neighbours`), it reads from standard input what to start,
and then calls a function of a test, which may use the names.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TypedDict

import pytest

ROOT = Path(__file__).parents[2]
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount")
_PATIENCE = 60.0


class Neighbour(TypedDict):
    """A program.

    Attributes:
        address: of its name, in 127.0.0.0/8 or 172.16.0.0/12.
        command: without it, only the name is made.
        environment: all of its variables but PATH.
    """

    address: str
    command: Sequence[str]
    environment: Mapping[str, str]


def run_neighbours(neighbours: Mapping[str, Neighbour], then: str, folder: Path) -> None:
    """Start programs in a network of their own, and call ``module:function`` with the folder beside them.

    Raises:
        AssertionError: the function raised something.
    """
    if shutil.which("unshare") is None or subprocess.run([*_UNSHARE, "true"], check=False).returncode:
        pytest.skip("This needs namespaces (unshare), which this machine does not allow.")
    done = subprocess.run(
        [*_UNSHARE, sys.executable, "-m", __name__, then, str(folder)],
        input=json.dumps(neighbours),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    logs = "\n".join(f"{log.name}: {log.read_text('utf-8')[-3000:]}" for log in folder.glob("*.log"))
    assert done.returncode == 0, f"{done.stderr}\n{logs}"


def main(then: str, folder: Path) -> None:
    neighbours: dict[str, Neighbour] = json.load(sys.stdin)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.NamedTemporaryFile("w", dir=folder) as hosts, ExitStack() as stack:
        for name, one in neighbours.items():
            hosts.write(f"{one['address']} {name}\n")
            if not one["address"].startswith("127."):
                subprocess.run(["ip", "address", "add", one["address"], "dev", "lo"], check=True)
        hosts.flush()
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
        for name, one in neighbours.items():
            if one["command"]:
                log = stack.enter_context((folder / f"{name}.log").open("w"))
                environment = {"PATH": os.environ["PATH"], **one["environment"]}
                # Of its own group: a shell's commands outlive the shell.
                program = subprocess.Popen(
                    one["command"], env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
                )
                stack.callback(program.wait)
                stack.callback(os.killpg, program.pid, signal.SIGKILL)
        module, _, function = then.partition(":")
        getattr(import_module(module), function)(folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
