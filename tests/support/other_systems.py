"""Makes this Python look like that of another system."""

import builtins
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import trio  # noqa: F401 -- before anything is hidden: it is made for this system

# Nothing of hookgw is imported here: it must find a system that lacks these.
NO_MODULES = frozenset({"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"})
NOT_ON_MACOS: tuple[tuple[ModuleType, str], ...] = (
    *((os, name) for name in ("memfd_create", "fdatasync", "sched_getaffinity", "pidfd_open", "eventfd")),
    *((os, name) for name in ("posix_fallocate", "posix_fadvise", "splice", "O_TMPFILE", "O_PATH")),
    *((socket, name) for name in ("SOCK_NONBLOCK", "SOCK_CLOEXEC", "SO_PEERCRED", "TCP_USER_TIMEOUT")),
    (time, "CLOCK_BOOTTIME"),
)
NOT_ON_WINDOWS_EITHER: tuple[tuple[ModuleType, str], ...] = (
    *((os, name) for name in ("geteuid", "getuid", "getegid", "getgroups", "statvfs", "fork", "fchmod")),
    *((os, name) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "chown", "pread", "pwrite")),
    *((signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE", "pthread_sigmask")),
    *((socket, name) for name in ("AF_UNIX",)),
)


class _Missing(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def pretend_windows() -> None:
    """Hide what Windows lacks."""
    pretend_macos()
    # Trio wakes itself through a pair of sockets, which Windows makes in another way.
    pair = partial(socket.socketpair, socket.AF_UNIX)
    socket.socketpair = pair
    del sys.modules["select"].poll
    for name in NO_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())
    _hide(NOT_ON_WINDOWS_EITHER)


def pretend_macos() -> None:
    """Hide what macOS lacks: calls of Linux, and files in ``/proc``."""
    # Trio was imported with the real one, and keeps it.
    others = ModuleType("select")
    others.__dict__.update(vars(select))
    for name in ("epoll", "EPOLLIN", "POLLRDHUP"):
        delattr(others, name)
    sys.modules["select"] = others
    _hide(NOT_ON_MACOS)
    for module, name in ((builtins, "open"), (os, "open"), (os, "listdir"), (os, "readlink"), (os, "stat")):
        _hide_proc(module, name)


def _hide(names: tuple[tuple[ModuleType, str], ...]) -> None:
    for module, name in names:
        if hasattr(module, name):
            delattr(module, name)


def _hide_proc(module: ModuleType, name: str) -> None:
    real = getattr(module, name)

    def call(path: Any, *args: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike) and str(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path, *args, **options)

    setattr(module, name, call)
