"""``/ingest/<instance>/<token>``, and paths below it: requests of networks to instances, without a key.

The token in the path shows that the sender was given the URL. Whether the request is the network's own, the
connector checks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from quart import Blueprint, Response, request

from hookgw.kernel.errors import TooManyRequests, Unavailable, UnsupportedContentEncoding
from hookgw.kernel.sentences import Sentence
from hookgw.records.connectors import IngestRequest
from hookgw.web.auth import INGEST_BELOW_RULE, INGEST_RULE
from hookgw.web.first_headers import FirstHeaders
from hookgw.web.needs import OPEN
from hookgw.web.openapi.describe import BYTES, Body, NotJson, describes
from hookgw.web.request_body import current_exchange, read_body
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import RequestResponse
from hookgw.web.server.response_head import BODILESS

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_HARMLESS = ("text/plain", JSON)
_SANDBOXED = {"content-security-policy": "sandbox; default-src 'none'"}
_ANSWER = NotJson("*/*", "The answer of the connector.")
_BODY = {"type": "string", "format": "binary", "description": "What the network sends."}
_ERRORS = (401, 404, 413, 415, 501, 503)  # of a GET, too, which may have a body


class IngestAnswer(NamedTuple):
    """What the network gets back."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]


class IngestEndpoint:
    """Passes requests to connectors. Shared by the ordinary route and the fast path."""

    def __init__(self, gateway: Gateway) -> None:
        self._ingest = gateway.ingest
        server = gateway.settings.server
        # One request of a network may report as much as a batch.
        self._limit = max(server.max_body, server.max_batch_body)

    async def answer(
        self,
        exchange: RequestResponse,
        chunks: AsyncIterable[bytes] | None,
        instance: str,
        token: str,
        below: str = "",
    ) -> IngestAnswer:
        """Return the answer to a request. The events that came of it are on disk.

        Args:
            exchange: the request.
            chunks: see :func:`~hookgw.web.request_body.read_body`.
            instance, token, below: of the path.

        Raises:
            NotFound: the token is wrong, or there is no such instance. Nothing else was looked at.
            HookgwError: the response is another error. It is a 503 for all that may pass.
        """
        self._ingest.check(instance, token)
        scope: Any = exchange.scope
        # Networks do not repeat a request after a 4xx, and 429 is one.
        exchange.count_for(instance, _repeatable)
        try:
            session = self._ingest.session(instance)
        except TooManyRequests as limit:
            raise _repeatable(limit) from None
        headers = FirstHeaders(scope["headers"])
        # The proof is over the bytes as they arrived, so hookgw must not decode them; and connectors expect
        # what their network sends, which is not encoded.
        if headers.get("content-encoding") not in (None, "", "identity"):
            raise UnsupportedContentEncoding(
                Sentence("ingest.content_encoding", "Send the body without a content-encoding."),
                accepted="identity",
            )
        body = await read_body(headers, chunks, self._limit, exchange)
        query: dict[str, str] = {}
        query_string = scope["query_string"].decode("latin-1")
        if query_string:
            for name, value in parse_qsl(query_string, keep_blank_values=True):
                query.setdefault(name, value)
        method = "POST" if scope["method"] == "POST" else "GET"  # a HEAD is answered like a GET
        asked = IngestRequest(
            method=method,
            query=query,
            headers=headers.texts(),
            body=body,
            path=below,
            query_string=query_string,
        )
        answer = await self._ingest.answer(session, asked)
        # A browser that is led here must not run what a connector repeats of a request.
        more = {} if answer.content_type.startswith(_HARMLESS) else _SANDBOXED
        return IngestAnswer(answer.status, answer.body, answer.content_type, more)


def _repeatable(limit: TooManyRequests) -> Unavailable:
    return Unavailable(*limit.messages, retry_after=limit.retry_after)


class IngestRoutes:
    def __init__(self, endpoint: IngestEndpoint) -> None:
        self._endpoint = endpoint

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("ingest", __name__)
        for rule in (INGEST_RULE, INGEST_BELOW_RULE):
            blueprint.add_url_rule(rule, view_func=self.get, methods=["GET"])
            blueprint.add_url_rule(rule, view_func=self.post, methods=["POST"])
        return blueprint

    @describes("Networks", OPEN, {200: _ANSWER}, errors=_ERRORS, other=_ANSWER)
    async def get(self, instance: str, token: str, below: str = "") -> Response:
        """Pass a request of the network, such as the check of a new URL, to the instance's connector.

        The token is the key. A wrong token and an unknown instance get the same 404. Every failure that may
        pass gets 503.
        """
        return await self._respond(instance, token, below)

    @describes(
        "Networks",
        OPEN,
        {200: _ANSWER},
        body=Body({BYTES: _BODY}, required=False, note="What the network sends, with any content type."),
        errors=_ERRORS,
        other=_ANSWER,
    )
    async def post(self, instance: str, token: str, below: str = "") -> Response:
        """Pass a request of the network to the instance's connector; respond once its events are on disk.

        The token is the key. A wrong token and an unknown instance get the same 404. Every failure that may
        pass gets 503.
        """
        return await self._respond(instance, token, below)

    async def _respond(self, instance: str, token: str, below: str) -> Response:
        answer = await self._endpoint.answer(current_exchange(), request.body, instance, token, below)
        response = Response(
            answer.body, answer.status, dict(answer.headers), content_type=answer.content_type
        )
        if answer.status in BODILESS:
            del response.headers["content-type"], response.headers["content-length"]
        return response
