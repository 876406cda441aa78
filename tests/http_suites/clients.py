"""Four clients, and what each makes of a receiver's bytes: hookgw's parser, Node's, curl, and h11.

The class is the status that counts, or ``failed`` if there is none.
"""

import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Sequence

import h11
import trio

from tests.public.delivery import ResponseFailed, ResponseParser

PATIENCE = 8.0
FAILED = "failed"
_NODE = """
const http = require('http');
const [, count, port] = process.argv;
const results = Array(Number(count)).fill('failed');
let open = results.length;
const end = () => { if (--open === 0) { console.log(JSON.stringify(results)); process.exit(); } };
results.forEach((_, number) => {
  let done = false;
  const once = (result) => { if (!done) { done = true; results[number] = result; end(); } };
  const request = http.request({port, host: '127.0.0.1', path: '/' + number, agent: false, timeout: 5000});
  request.on('response', (response) => {
    response.on('error', () => {}).resume(); once(String(response.statusCode));
  });
  request.on('error', () => once('failed'));
  request.on('timeout', () => request.destroy());
  request.on('upgrade', (response, socket) => { socket.destroy(); once('failed'); });
  request.end();
});
"""


def class_by_hookgw(sent: bytes) -> str:
    """Return the class by hookgw's parser: however the bytes are cut, it is the same."""
    classes = {_parsed(sent, size) for size in (1, 7, max(1, len(sent)))}
    return classes.pop() if len(classes) == 1 else f"depends on the pieces: {sorted(classes)}"


def _parsed(sent: bytes, size: int) -> str:
    parser = ResponseParser(2**20)
    parser.begin()
    try:
        pieces = (sent[at : at + size] for at in range(0, len(sent), size))
        if not any(parser.feed(piece) for piece in pieces):
            parser.end_of_stream()
    except ResponseFailed:
        return FAILED
    return str(parser.finish().status) if parser.status else FAILED


def class_by_h11(sent: bytes) -> str:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(sent)
    client.receive_data(b"")
    try:
        while not isinstance(event := client.next_event(), h11.Response):
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return FAILED
    except h11.RemoteProtocolError:
        return FAILED
    return str(event.status_code)


async def classes_by_others(answers: Sequence[bytes]) -> dict[str, list[str]]:
    """Return the classes by Node and curl, as far as this machine has them."""
    found: dict[str, list[str]] = {}
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, _answering(answers), 0)
        port = listeners[0].socket.getsockname()[1]
        if node := shutil.which("node"):
            said = await _output([node, "-e", _NODE, str(len(answers)), str(port)], 60)
            found["Node"] = json.loads(said)
        if curl := shutil.which("curl"):
            options = ("-s", "--http1.1", "--noproxy", "*", "--max-time", "5", "-o", "/dev/null")
            found["curl"] = [
                _status(
                    await _output(
                        [curl, *options, "-w", "%{http_code}", f"http://127.0.0.1:{port}/{number}"], PATIENCE
                    )
                )
                for number in range(len(answers))
            ]
        nursery.cancel_scope.cancel()
    return found


def _answering(answers: Sequence[bytes]) -> Callable[[trio.SocketStream], Awaitable[None]]:
    async def answer(stream: trio.SocketStream) -> None:
        """Send the answer with the number in the request's path, and close."""
        asked = b""
        try:
            while b"\r\n\r\n" not in asked and (more := await stream.receive_some()):
                asked += more
            await stream.send_all(answers[int(asked.split()[1][1:])])
            await stream.send_eof()
            with trio.move_on_after(1):
                await stream.receive_some()
        except (trio.BrokenResourceError, IndexError):
            pass

    return answer


async def _output(command: Sequence[str], seconds: float) -> str:
    with trio.fail_after(seconds):
        done = await trio.run_process(command, capture_stdout=True, stderr=subprocess.DEVNULL, check=False)
    return bytes(done.stdout).decode()


def _status(code: str) -> str:
    # curl reports an interim response, if there is no other, and 000 without any.
    return code if code.isdigit() and int(code) >= 200 else FAILED
