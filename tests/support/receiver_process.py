"""A receiver that knows nothing of hookgw: prints each request as a line of JSON.

Run as a program. The first line is its URL; then one line a request, before the request is answered.
A path ``/status/503`` is answered with that status, ``/wait/0.5`` after so many seconds, any other at
once with 200. Below ``/proxy``, a body with the word "poison" is answered 502, as by a proxy that it
upsets. An argument is the port to listen on. It ends when its standard input does, so it never outlives who
started it.
"""

import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Prints, then answers."""

    protocol_version = "HTTP/1.1"
    printing = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = {
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": base64.b64encode(body).decode(),
        }
        with self.printing:
            print(json.dumps(request), flush=True)
        verb, _, argument = self.path.removeprefix("/").partition("/")
        if verb == "wait":
            time.sleep(float(argument))
        status = int(argument) if verb == "status" else 200
        self.send_response(502 if verb == "proxy" and b"poison" in body else status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
        """Say nothing."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
