"""The fake Bot API server: HTTP in front of :class:`~tests.networks.telegram.bots.Bot`."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

from tests.networks.telegram.bots import TOKEN, Bot, Failure
from tests.networks.telegram.webhooks import WebhookSender

Fault = Callable[[], Response | None]
"""Made in place of an answer, or ``None`` to make the call and lose the answer."""


class BotApi:
    """A server with some bots.

    Attributes:
        bots: by token.
        faults: by method in lower case, what happens instead of the answer; used up in order. A method
            ``"*"`` stands for all.
        app: the application.
    """

    def __init__(self, *bots: Bot) -> None:
        self.bots = {bot.token: bot for bot in bots or (Bot(),)}
        self.faults: dict[str, list[Fault]] = {}
        self.app = QuartTrio("telegram")
        self.app.config["MAX_CONTENT_LENGTH"] = 60 * 2**20
        self.app.add_url_rule("/bot<token>/<method>", "call", self._call, methods=["GET", "POST"])
        self.app.add_url_rule("/file/bot<token>/<path:path>", "file", self._file)
        self.app.add_url_rule("/say/bot<token>", "say", self._say, methods=["POST"])

    @property
    def bot(self) -> Bot:
        return next(iter(self.bots.values()))

    def transport(self) -> httpx.ASGITransport:
        """Return what reaches the server without a socket."""
        app: Any = self.app
        return httpx.ASGITransport(app)

    def will(self, method: str, *faults: Fault) -> None:
        """Let the next calls of a method go wrong."""
        self.faults.setdefault(method.lower(), []).extend(faults)

    async def _call(self, token: str, method: str) -> Response:
        bot = self.bots.get(token)
        if bot is None:
            return _failure(Failure(404, "Not Found") if ":" not in token else Failure(401, "Unauthorized"))
        name = method.lower()
        fault = next((self.faults[one].pop(0) for one in (name, "*") if self.faults.get(one)), None)
        if fault is not None and (answer := fault()) is not None:
            return answer
        try:
            result = await bot.call(method, await _parameters())
        except Failure as failure:
            return _failure(failure)
        if fault is not None:
            return _response(502, "<html>Bad Gateway</html>", "text/html")
        return _json_response(200, {"ok": True, "result": result})

    async def _file(self, token: str, path: str) -> Response:
        bot = self.bots.get(token)
        for file in bot.files.values() if bot else ():
            if file.path == path:
                return Response(file.content, content_type="application/octet-stream")
        return _failure(Failure(404, "Not Found"))

    async def _say(self, token: str) -> Response:
        """Let a person write: no part of the Bot API, but for those who try the fake out by hand."""
        message = self.bots[token].say(**(await request.get_json()))
        return _json_response(200, message)


def broken(
    body: str | bytes, status: int = 200, content_type: str = "application/json", **headers: str
) -> Fault:
    return lambda: _response(status, body, content_type, **headers)


def refusing(code: int, description: str, **parameters: Any) -> Fault:
    return lambda: _failure(Failure(code, description, **parameters))


def losing_answer() -> Fault:
    """Return a fault that makes the call, and answers with a 502."""
    return lambda: None


@asynccontextmanager
async def serving(api: BotApi, port: int = 0, *, speed: float = 1.0) -> AsyncIterator[str]:
    """Serve on loopback, with the webhooks of all bots, for the length of the block; return the URL."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 0.1
    config.keep_alive_timeout = 60
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http, trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve, api.app, config))
        for bot in api.bots.values():
            nursery.start_soon(WebhookSender(bot, http, speed).run)
        yield url
        nursery.cancel_scope.cancel()


async def _parameters() -> dict[str, Any]:
    """Return the parameters of a call: query, JSON, or a form (https://core.telegram.org/bots/api#making-requests)."""
    given: dict[str, Any] = dict(request.args)
    if request.is_json:
        given |= await request.get_json() or {}
    elif request.method == "POST":
        given |= dict(await request.form)
        for name, file in (await request.files).items():
            given[name] = (file.filename, file.read(), file.mimetype)
    return given


def _failure(failure: Failure) -> Response:
    body: dict[str, Any] = {"ok": False, "error_code": failure.code, "description": failure.description}
    headers = {}
    if failure.parameters:
        body["parameters"] = failure.parameters
        if "retry_after" in failure.parameters:
            headers["Retry-After"] = str(failure.parameters["retry_after"])
    return _json_response(failure.code, body, **headers)


def _json_response(status: int, body: Any, **headers: str) -> Response:
    return _response(status, json.dumps(body), "application/json", **headers)


def _response(status: int, body: str | bytes, content_type: str, **headers: str) -> Response:
    return Response(body, status=status, content_type=content_type, headers=headers)


__all__ = ["TOKEN", "Bot", "BotApi", "broken", "losing_answer", "refusing", "serving"]
