"""The stand-in for Meta on a socket."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from tests.networks.whatsapp_cloud.graph import APP, CUSTOMER, NUMBER, Graph
from tests.networks.whatsapp_cloud.webhooks import (
    CHALLENGE,
    Sender,
    notification,
    status,
    text_message,
    value,
)


class Server:
    """Answers as the Graph API, and plays people: ``/write`` lets one write, ``/verify`` checks a URL.

    Both take ``{"url": "<ingestUrl>"}``, which need not be given once Meta was told, and ``/write`` also
    ``from`` and ``text``. From then on, each message that the number sends is sent, delivered and read.

    Args:
        graph: knows everything.
        nursery: sends webhooks.
        http: makes their requests.

    Attributes:
        delays: by kind of request (see ``Graph.will``), seconds before its answer.
    """

    def __init__(self, graph: Graph, nursery: trio.Nursery, http: httpx.AsyncClient) -> None:
        self.graph = graph
        self.delays: dict[str, float] = {}
        self._nursery = nursery
        self._http = http
        self._url = ""
        if graph.on_sent is None:
            graph.on_sent = self._report

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] == "lifespan":
            while True:
                event = await receive()
                await send({"type": f"{event['type']}.complete"})
                if event["type"] == "lifespan.shutdown":
                    return
        body, is_complete = b"", False
        while not is_complete:
            part = await receive()
            body += part.get("body", b"")
            is_complete = not part.get("more_body", False)
        url = f"http://{_header(scope, b'host')}{scope['raw_path'].decode()}?{scope['query_string'].decode()}"
        request = httpx.Request(scope["method"], url, headers=scope["headers"], content=body)
        if request.url.path in ("/write", "/verify"):
            await _send(send, await self._play(request.url.path, json.loads(body)))
            return
        await trio.sleep(self.delays.get(self.graph.kind_of(request), 0))
        if callback := self.graph.callback_to_verify(request):
            # webhooks/create-webhook-endpoint: the challenge must come back, bare.
            checked = await Sender(callback[0], self._http).verify(callback[1])
            if (checked.status_code, checked.text) != (200, CHALLENGE):
                refusal = {"message": "(#2200) Callback verification failed", "code": 2200}
                await _send(send, httpx.Response(400, json={"error": refusal}))
                return
        try:
            answer = self.graph.answer(request)
        except httpx.HTTPError:
            # A connection that breaks in the middle of an answer.
            headers = [(b"content-type", b"application/json"), (b"content-length", b"500")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"messaging_product": "what'})
            return
        await _send(send, answer)

    async def _play(self, path: str, asked: dict[str, str]) -> httpx.Response:
        callbacks = self.graph.callbacks
        self._url = asked.get("url") or callbacks.get(NUMBER) or callbacks[APP]
        sender = Sender(self._url, self._http)
        if path == "/verify":
            answer = await sender.verify(asked["verify_token"])
            return httpx.Response(200, json={"status": answer.status_code, "body": answer.text})
        message = text_message(asked.get("text", "hi"), **{"from": asked.get("from", CUSTOMER)})
        self.graph.incoming.add(message["id"])
        attempts = await sender.deliver(notification(value(messages=[message])))
        return httpx.Response(200, json={"id": message["id"], "attempts": attempts})

    def _report(self, sent: dict[str, Any]) -> None:
        if self._url:
            self._nursery.start_soon(self._report_statuses, sent)

    async def _report_statuses(self, sent: dict[str, Any]) -> None:
        sender, more = Sender(self._url, self._http), {}
        if "biz_opaque_callback_data" in sent:
            more["biz_opaque_callback_data"] = sent["biz_opaque_callback_data"]
        for word in ("sent", "delivered", "read"):
            await trio.sleep(0.05)
            reported = status(sent["id"], word, recipient_id=sent.get("to"), **more)
            await sender.deliver(notification(value(statuses=[reported])))


@asynccontextmanager
async def running_server(graph: Graph, *, port: int = 0) -> AsyncIterator[tuple[Server, str]]:
    """Serve a graph on a port for the length of the block; give the server and its URL."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = None
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http, trio.open_nursery() as nursery:
        server = Server(graph, nursery, http)
        [url] = await nursery.start(partial(serve, server.app, config))
        try:
            yield server, url
        finally:
            nursery.cancel_scope.cancel()


async def _send(send: Any, answer: httpx.Response) -> None:
    content = answer.read()
    names = {b"content-length", b"transfer-encoding"}
    headers = [(name.lower(), text) for name, text in answer.headers.raw if name.lower() not in names]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _header(scope: Any, name: bytes) -> str:
    found: bytes = next((text for key, text in scope["headers"] if key == name), b"meta.test")
    return found.decode()
