"""Portal links and a kill: what was used stays used, what was made can be opened."""

import re
import signal
from pathlib import Path

import httpx

from tests.support.gateway_process import Server, serving


def open_link(server: Server, url: str) -> int:
    """Open a link as a browser does, and return the status."""
    with httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=30) as http:
        page = http.get("/dashboard/portal").text
        token = re.search(r'form_token" value="(\w+)"', page)
        assert token is not None
        form = {"form_token": token[1], "link": url}
        return http.post("/dashboard/portal", data=form).status_code


def test_a_used_link_stays_used_through_a_kill(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path) as server:
            used, waiting = (
                server.post("/portal/link", {"tags": {"tenant": "acme"}}, status=201)["url"] for _ in range(2)
            )
            assert open_link(server, used) == 303
            # At once: the answer alone must be enough for both.
            server.process.stop(signal.SIGKILL)
        with serving(tmp_path) as server:
            assert open_link(server, used) == 403
            assert open_link(server, waiting) == 303
