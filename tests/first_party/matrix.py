"""A scripted homeserver of Matrix, for tests of its connector."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import httpx
import trio

from hookgw import ConnectionState
from hookgw.testing import FakeSession
from plugins.matrix.connector import Matrix
from tests.first_party import runs
from tests.first_party.runs import CATALOG as CATALOG

HOMESERVER = "https://hs.example"
ROOM = "!room:hs.example"
ME, ANA = "@shop:hs.example", "@ana:hs.example"
OPTIONS = {"homeserver": HOMESERVER, "user": "shop", "password": "secret"}
DIRECT = f"PUT user/{ME}/account_data/m.direct"

Reply = httpx.Response | Exception


def refusal(status: int, code: str, **more: Any) -> httpx.Response:
    """Return an error as homeservers send it."""
    return httpx.Response(status, json={"errcode": code, "error": f"It says {code}.", **more})


def message(number: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": f"${number}",
        "sender": ANA,
        "origin_server_ts": 1_773_027_345_000 + number,
        "content": {"msgtype": "m.text", "body": str(number)},
        **more,
    }


def own_join(id_: str, **unsigned: Any) -> dict[str, Any]:
    content = {"membership": "join"}
    return message(0, type="m.room.member", event_id=id_, state_key=ME, content=content, unsigned=unsigned)


def invited(by: str, *, is_direct: bool) -> dict[str, Any]:
    """Return an invitation as an answer of /sync has it."""
    content = {"membership": "invite", "is_direct": is_direct}
    invite = message(1, type="m.room.member", sender=by, state_key=ME, content=content)
    return {"invite_state": {"events": [invite]}}


class Homeserver:
    """Answers requests by script.

    Attributes:
        requests: method and path of each request but syncs, with the decoded body.
        syncs: the parameters of each sync.
        answers: by method and beginning of the path, answers that are used up in order.
        always: the same, for answers that are not used up.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.syncs: list[dict[str, str]] = []
        self.answers: dict[str, list[Reply | Callable[[httpx.Request], httpx.Response]]] = {}
        self.always: dict[str, Callable[[httpx.Request], httpx.Response]] = {}
        self._position = 0
        self._send_sync, self._next_sync = trio.open_memory_channel[Reply](100)

    def sync(self, *timeline: dict[str, Any], limited: bool = False, **more: Any) -> None:
        """Answer a sync with a room's timeline."""
        self._position += 1
        room = {"timeline": {"events": timeline, "limited": limited, "prev_batch": "p0"}, **more}
        self.reply({"next_batch": f"s{self._position}", "rooms": {"join": {ROOM: room}}})

    def reply(self, answer: dict[str, Any] | Reply) -> None:
        found = httpx.Response(200, json=answer) if isinstance(answer, dict) else answer
        self._send_sync.send_nowait(found)

    def will(
        self, call: str, *answers: Reply | dict[str, Any] | Callable[[httpx.Request], httpx.Response]
    ) -> None:
        """Answer the next requests to a path, such as ``GET profile``."""
        found = [httpx.Response(200, json=one) if isinstance(one, dict) else one for one in answers]
        self.answers.setdefault(call, []).extend(found)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path = unquote(request.url.raw_path.decode().partition("?")[0])
        path = path.removeprefix("/_matrix/client/v3/")
        await trio.lowlevel.checkpoint()
        # In a place of its own: no other request waits for it.
        assert bool(request.extensions.get("long_poll")) is (path == "sync")
        if path == "sync":
            self.syncs.append(dict(request.url.params))
            found: Any = await self._next_sync.receive()
        else:
            body = request.content
            is_json = request.headers.get("content-type") == "application/json"
            self.requests.append((request.method, path, json.loads(body) if is_json else body))
            call = f"{request.method} {path}"
            name = next((name for name, left in self.answers.items() if call.startswith(name) and left), None)
            found = self.answers[name].pop(0) if name else self._usual(call)
        if isinstance(found, Exception):
            raise found
        answer = found(request) if callable(found) else found
        assert isinstance(answer, httpx.Response)
        if not answer.is_closed:
            return answer  # with a body that is still to come
        # A response belongs to one request, and some answers are given twice.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def _usual(self, call: str) -> Reply | Callable[[httpx.Request], httpx.Response]:
        for beginning, make in self.always.items():
            if call.startswith(beginning):
                return make
        for beginning, answer in {
            "POST login": {"access_token": "token", "device_id": "DEV", "user_id": ME},
            "GET account/whoami": {"user_id": ME, "device_id": "DEV"},
            "GET profile": {"displayname": "Shop"},
            "GET user": {},
            "PUT rooms": {"event_id": "$sent"},
            "POST": {"room_id": ROOM, "content_uri": "mxc://hs.example/file"},
            "PUT": {},
        }.items():
            if call.startswith(beginning):
                return httpx.Response(200, json=answer)
        return refusal(404, "M_NOT_FOUND")

    def paths(self, beginning: str) -> list[str]:
        return [path for method, path, _ in self.requests if f"{method} {path}".startswith(beginning)]


@asynccontextmanager
async def running(session: FakeSession) -> AsyncIterator[Matrix]:
    matrix = Matrix()
    with trio.fail_after(3600):  # the clock jumps there if nothing else can happen
        async with runs.running(matrix, session):
            yield matrix


@asynccontextmanager
async def connected(homeserver: Homeserver, session: FakeSession) -> AsyncIterator[Matrix]:
    homeserver.sync()
    async with running(session) as matrix:
        await session.wait_until(ConnectionState.OPEN)
        yield matrix


def texts(session: FakeSession) -> list[str]:
    return [data["message"]["conversation"] for data in session.data_of("MESSAGES_UPSERT")]


class DendriteRoom:
    """Pages of a room as Dendrite gives them, with its limiter.

    A sync's token is a place in the stream of all rooms (``s7_0``), a page's one in the room's own order
    (``t5_7``), and the first event of a gap counts as known if ``to`` is a place between it and the room's
    event before it. Every page has an ``end``, and a page without events names the beginning of the room.

    Args:
        threshold: requests at once; each place is free again after half a second.
    """

    def __init__(self, threshold: int = 20) -> None:
        self.events: list[tuple[int, dict[str, Any]]] = []  # by depth, from 1: the place in the stream
        self.asked: list[dict[str, str]] = []
        self.refused = 0
        self._threshold = threshold
        self._taken: list[float] = []

    def add(self, place: int, event: dict[str, Any]) -> None:
        self.events.append((place, event))

    def answer(self, request: httpx.Request) -> httpx.Response:
        now = trio.current_time()
        self._taken = [began for began in self._taken if began > now - 0.5]
        if len(self._taken) >= self._threshold:
            self.refused += 1
            return refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=500)
        self._taken.append(now)
        query = dict(request.url.params)
        self.asked.append(query)
        depth, stream = self._place(query["from"], is_upper=True)
        lowest = self._place(query["to"], is_upper=False)[0] if "to" in query else 0
        found = [
            (number, place, event)
            for number, (place, event) in enumerate(self.events, 1)
            if lowest < number and (number < depth or (number == depth and place <= stream))
        ]
        found = found[::-1][: int(query["limit"])]
        end = f"t{found[-1][0] - 1}_{found[-1][1] + 1000}" if found else "t0_0"
        chunk = [{**event, "room_id": ROOM} for _, _, event in found]
        return httpx.Response(200, json={"chunk": chunk, "start": query["from"], "end": end})

    def _place(self, token: str, *, is_upper: bool) -> tuple[int, int]:
        depth, _, stream = token[1:].partition("_")
        if token.startswith("t"):
            return int(depth), int(stream)
        places = [place for place, _ in self.events]
        if is_upper:
            return sum(place <= int(depth) for place in places), int(depth)
        return next((n for n, place in enumerate(places, 1) if place >= int(depth)), 2**62), int(depth)
