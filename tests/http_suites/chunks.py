"""What small chunks cost: hookgw's reader beside Node's server, for the same bytes. Nothing is judged."""

import shutil
import subprocess
import time

from tests.public.web import RequestReader, State

SIZE = 2**20
_HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
_NODE = """
const http = require('http'), net = require('net');
const server = http.createServer((request, response) => {
  request.on('data', () => {}).on('end', () => response.end());
}).listen(0, '127.0.0.1', () => run(6, Infinity));
const chunks = '1\\r\\nx\\r\\n'.repeat(Math.floor(1048576 / 6));
const sent = Buffer.from(process.argv[1] + chunks + '0\\r\\n\\r\\n');
const run = (left, best) => {
  if (!left) { console.log(best); process.exit(); }
  const client = net.connect(server.address().port, '127.0.0.1'), before = process.cpuUsage();
  client.write(sent);
  client.on('data', () => {
    const {user, system} = process.cpuUsage(before);
    client.destroy();
    run(left - 1, Math.min(best, (user + system) / 1000));
  });
};
"""


def compare() -> str:
    """Return a sentence about a body of 1 MiB in chunks of one byte."""
    ours = f"small chunks, processor time for 1 MiB of them: hookgw {1000 * min(map(_read, range(6))):.0f} ms"
    node = shutil.which("node")
    if node is None:
        return ours
    said = subprocess.run(
        [node, "-e", _NODE, _HEAD.decode()], capture_output=True, text=True, check=True, timeout=60
    )
    return f"{ours}, Node {float(said.stdout):.0f} ms"


def _read(_: int) -> float:
    sent = b"1\r\nx\r\n" * (SIZE // 6) + b"0\r\n\r\n"
    reader = RequestReader(len(_HEAD))
    reader.feed(_HEAD)
    reader.head()
    begun = time.process_time()
    for at in range(0, len(sent), 65_536):
        reader.feed(sent[at : at + 65_536])
        while reader.is_within_body and reader.part():
            pass
    assert reader.state is State.COMPLETE
    return time.process_time() - begun
