"""Set up all tests: no name servers, short paths of sockets, nothing slow that every gateway would repeat."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hookgw.plugins import discovery

# A busy machine makes any test slow, so Hypothesis must not fail one for its time.
settings.register_profile("hookgw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hookgw")


@pytest.fixture(scope="session", autouse=True)
def _no_name_servers() -> Iterator[None]:
    """Every name but that of this machine is unknown."""
    usual = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *others: int, **named: int) -> Any:
        options = dict(zip(("family", "type", "proto", "flags"), others, strict=False)) | named
        if host not in (None, "localhost", b"localhost"):
            options["flags"] = options.get("flags", 0) | socket.AI_NUMERICHOST
        return usual(host, port, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def _distributions_read_once() -> Iterator[None]:
    """Look for plugins among the installed distributions once for each ``sys.path``.

    Hundreds of tests open a gateway, and each would read the files of every distribution again (10 ms).
    """
    found: dict[tuple[str, ...], metadata.EntryPoints] = {}

    def known(group: str) -> metadata.EntryPoints:
        path = (group, *sys.path)
        if path not in found:
            found[path] = metadata.entry_points(group=group)
        return found[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "entry_points", known)
        yield


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder for Unix sockets: their paths have 107 bytes at most, and a checkout can lie deep."""
    with tempfile.TemporaryDirectory(prefix="hookgw-", dir="/tmp") as folder:
        yield Path(folder)
