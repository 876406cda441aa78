"""A homeserver of Matrix, as far as a victim needs one, and as hostile as an attack wants it."""

import gzip
import re
from collections.abc import Awaitable, Callable

import msgspec
import trio

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
ROOM = "!room:test"

Answer = Callable[[trio.SocketStream, str, str, bytes], Awaitable[bool]]
"""Answers a request itself, given the stream, the method, the path and the body; or returns ``False``."""


def rendered(body: object, status: str = "200 OK", *, compressed: bool = False) -> bytes:
    """Return a response with a JSON body; bytes are JSON already."""
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    encoding = "content-encoding: gzip\r\n" if compressed else ""
    content = gzip.compress(content) if compressed else content
    return f"HTTP/1.1 {status}\r\n{encoding}content-length: {len(content)}\r\n\r\n".encode() + content


async def nothing_special(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
    """Leave every request to the homeserver."""
    del stream, method, path, body
    return False


async def serve_homeserver(nursery: trio.Nursery, answer: Answer = nothing_special) -> str:
    """Run a homeserver in a nursery, and return its URL.

    Args:
        nursery: serves until it is cancelled.
        answer: is asked first.
    """
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=4096)
    assert isinstance(listener, trio.SocketListener)

    async def serve(stream: trio.SocketStream) -> None:
        try:
            data = b""
            while more := await stream.receive_some(65_536):
                data += more
                while (end := data.find(b"\r\n\r\n") + 4) > 3:
                    length = _LENGTH.search(data, 0, end)
                    size = end + (int(length[1]) if length else 0)
                    if len(data) < size:
                        break
                    method, path, _ = data[: data.find(b"\r\n")].decode().split(" ", 2)
                    body, data = data[end:size], data[size:]
                    if not await answer(stream, method, path, body):
                        await _answer(stream, method, path)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            stream.socket.close()

    nursery.start_soon(trio.serve_listeners, serve, [listener])
    return f"http://127.0.0.1:{listener.socket.getsockname()[1]}"


async def _answer(stream: trio.SocketStream, method: str, path: str) -> None:
    if path.endswith("/account/whoami"):
        await stream.send_all(rendered({"user_id": "@someone:test", "device_id": "D"}))
    elif "/sync?" in path:
        if "timeout=0" not in path:
            await trio.sleep(30)
        await stream.send_all(rendered({"next_batch": "s1"}))
    elif method == "PUT" and "/send/" in path:
        await stream.send_all(rendered({"event_id": "$" + path.rsplit("/", 1)[1]}))
    else:
        await stream.send_all(rendered({"errcode": "M_NOT_FOUND", "error": "none"}, "404 Not Found"))
