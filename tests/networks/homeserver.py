"""Homeservers of Matrix as processes of their own, and people who use them."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import trio

from tests.support.ports import free_port

SERVER_NAME = "hs.test"
PASSWORD = "the password of a test"
_START_PATIENCE = 60.0


class HomeserverProcess(ABC):
    """A homeserver that can be killed and started again on the same data and port.

    Args:
        folder: everything it writes is in there.

    Attributes:
        folder: as given.
        port, url: of its client API.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        # A homeserver does not say which port it got for 0, and needs the same one after a restart.
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs it."""

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            AssertionError: it ended, or took too long.
        """
        output = self.folder / "output"
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_PATIENCE
        with httpx.Client(trust_env=False) as http:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    http.get(f"{self.url}/_matrix/client/versions")
                except httpx.HTTPError:
                    time.sleep(0.05)
                else:
                    return
        said = output.read_text(encoding="utf-8", errors="replace")
        raise AssertionError(f"The homeserver did not start; its output ends:\n{said[-3000:]}")

    def kill(self) -> None:
        """``kill -9``; returns when the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @asynccontextmanager
    async def user(self, name: str) -> AsyncIterator[Person]:
        """Register a user, and log in."""
        # Another device than the gateway's, with another client: a person at a phone.
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=30) as http:
            body = {"username": name, "password": PASSWORD, "auth": {"type": "m.login.dummy"}}
            registered = await http.post("/_matrix/client/v3/register", json=body)
            assert registered.status_code == 200, registered.text
            yield Person(http, registered.json())


class Person:
    """A user with a client of their own.

    Attributes:
        id: the user's.
        token: the access token of this login.
    """

    def __init__(self, http: httpx.AsyncClient, login: dict[str, Any]) -> None:
        self.id: str = login["user_id"]
        self.token: str = login["access_token"]
        self._http = http
        self._transactions = count()

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Make a request below ``/_matrix/client/v3``, which must succeed."""
        headers = {"authorization": f"Bearer {self.token}"}
        answer = await self._http.request(
            method, f"/_matrix/client/v3/{path}", json=body, params=query, headers=headers
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def room_with(self, *users: str, is_direct: bool = True) -> str:
        """Create a room and invite others."""
        body = {"invite": users, "is_direct": is_direct, "preset": "private_chat"}
        created = await self.call("POST", "createRoom", body)
        return str(created["room_id"])

    async def say(self, room: str, content: str | dict[str, Any], kind: str = "m.room.message") -> str:
        """Send a text or another event; repeat it until the homeserver has it. Return its id."""
        if isinstance(content, str):
            content = {"msgtype": "m.text", "body": content}
        path = f"rooms/{quote(room)}/send/{kind}/person-{next(self._transactions)}"
        while True:
            try:
                return str((await self.call("PUT", path, content))["event_id"])
            except httpx.HTTPError:
                await trio.sleep(0.05)

    async def wait_until_joined(self, room: str, user: str) -> None:
        path = f"rooms/{quote(room)}/joined_members"
        while user not in (await self.call("GET", path))["joined"]:  # noqa: ASYNC110 (a server knows it)
            await trio.sleep(0.05)

    async def timeline(self, room: str) -> list[dict[str, Any]]:
        """Return all events of a room, oldest first."""
        # Backwards: Dendrite reads nothing forwards from the beginning.
        chunk: list[dict[str, Any]] = []
        answer: dict[str, Any] = {"chunk": [None]}
        while answer["chunk"] and (not chunk or answer.get("end")):
            begin = {"from": answer["end"]} if chunk else {}
            path = f"rooms/{quote(room)}/messages"
            answer = await self.call("GET", path, dir="b", limit="1000", **begin)
            chunk += answer["chunk"]
        return chunk[::-1]

    async def upload(self, content: bytes, mimetype: str) -> str:
        """Upload a file, and return its address."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": mimetype}
        answer = await self._http.post("/_matrix/media/v3/upload", content=content, headers=headers)
        return str(answer.json()["content_uri"])

    async def download(self, address: str) -> bytes:
        """Return the content of a file."""
        headers = {"authorization": f"Bearer {self.token}"}
        path = address.removeprefix("mxc://")
        answer = await self._http.get(f"/_matrix/client/v1/media/download/{path}", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.content
