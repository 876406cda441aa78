import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.public.kernel import StartError
from tests.public.web import open_listeners, url_of
from tests.support.ports import free_port


async def test_port_0_is_a_free_port_and_the_url_names_it() -> None:
    async with open_listeners(["127.0.0.1:0"]) as (listener,):
        url = url_of(listener, "/hooks")
        port = int(url.removeprefix("http://127.0.0.1:").removesuffix("/hooks"))
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


async def test_several_addresses() -> None:
    async with open_listeners(["127.0.0.1:0", "127.0.0.1:0"]) as listeners:
        assert len({url_of(listener) for listener in listeners}) == 2


async def test_ipv6() -> None:
    async with open_listeners(["[::1]:0"]) as (listener,):
        assert url_of(listener).startswith("http://[::1]:")


class WithoutIPv6(trio.abc.HostnameResolver):
    """Names have an address that this machine lacks, as ``::1`` where IPv6 is off, beside 127.0.0.1."""

    async def getaddrinfo(self, _host: Any, port: Any, *_: Any) -> Any:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port)))
            for address in ("192.0.2.1", "127.0.0.1")
        ]

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


async def test_localhost_is_listened_on_where_ipv6_is_off() -> None:
    trio.socket.set_custom_hostname_resolver(WithoutIPv6())
    async with open_listeners(["localhost:0"]) as (listener,):
        assert url_of(listener).startswith("http://127.0.0.1:")
    with pytest.raises(StartError, match=r"cannot listen on gw\.example:0: .*assign requested address"):
        async with open_listeners(["gw.example:0"]):
            pass


async def test_a_port_in_use_is_named_and_nothing_stays_open() -> None:
    async with open_listeners(["127.0.0.1:0"]) as (taken,):
        address = f"127.0.0.1:{taken.socket.getsockname()[1]}"
        other = f"127.0.0.1:{free_port()}"
        with pytest.raises(
            StartError, match=f"cannot listen on {address}: something is listening there already"
        ):
            async with open_listeners([other, address]):
                pass
        async with open_listeners([other]):
            pass


async def test_a_port_that_needs_more_rights_says_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(trio, "open_tcp_listeners", refuse)
    with pytest.raises(StartError, match=r"127\.0\.0\.1:80: .*take one from 1024 on"):
        async with open_listeners(["127.0.0.1:80"]):
            pass


@pytest.mark.parametrize(
    "address", ["192.0.2.1:0", "127.0.0.1:70000", "127.0.0.1:http", "nothing", "fd://999", "fd://x"]
)
async def test_an_address_that_fails_is_named(address: str) -> None:
    with pytest.raises(StartError, match=r"server\.bind: "):
        async with open_listeners([address]):
            pass


async def test_a_unix_socket_is_removed_with_the_server(socket_folder: Path) -> None:
    path = socket_folder / "hookgw.sock"
    async with open_listeners([f"unix:{path}"]) as (listener,):
        assert url_of(listener, "/hooks") == f"unix:{path}"
        await (await trio.open_unix_socket(path)).aclose()
    assert not await trio.Path(path).exists()


async def test_the_socket_of_a_dead_process_is_replaced(socket_folder: Path) -> None:
    path = socket_folder / "hookgw.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with open_listeners([f"unix:{path}"]):
        await (await trio.open_unix_socket(path)).aclose()


async def test_the_socket_of_a_running_process_is_kept(socket_folder: Path) -> None:
    address = f"unix:{socket_folder / 'hookgw.sock'}"
    async with open_listeners([address]):
        with pytest.raises(StartError, match="something is listening there already"):
            async with open_listeners([address]):
                pass
        await (await trio.open_unix_socket(socket_folder / "hookgw.sock")).aclose()


async def test_a_socket_in_a_missing_folder(socket_folder: Path) -> None:
    folder = socket_folder / "nowhere"
    with pytest.raises(StartError, match=f"there is no folder {folder}; make it first"):
        async with open_listeners([f"unix:{folder}/hookgw.sock"]):
            pass


async def test_a_file_that_is_not_a_socket_is_kept(socket_folder: Path) -> None:
    path = trio.Path(socket_folder / "notes")
    await path.write_text("mine")
    with pytest.raises(StartError, match=r"cannot listen on unix:.*: this file is no socket"):
        async with open_listeners([f"unix:{path}"]):
            pass
    assert await path.read_text() == "mine"


async def test_the_socket_of_a_successor_is_kept(socket_folder: Path) -> None:
    path = trio.Path(socket_folder / "hookgw.sock")
    async with open_listeners([f"unix:{path}"]):
        await path.rename(socket_folder / "old")
        await path.write_text("the successor's")
    assert await path.exists()


async def test_an_inherited_socket() -> None:
    given = socket.create_server(("127.0.0.1", 0))
    port = given.getsockname()[1]
    async with open_listeners([f"fd://{given.detach()}"]) as (listener,):
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()


async def test_an_inherited_socket_that_does_not_listen() -> None:
    with socket.socket() as given:
        with pytest.raises(StartError, match="fd://"):
            async with open_listeners([f"fd://{given.fileno()}"]):
                pass
        assert given.fileno() > 0
        given.getsockname()
