"""The endpoint behind ``/ingest/<instance>/<token>``, shared by the ordinary routes and the fast path.

The token in the path shows that the sender was given the URL. Whether the request is the network's own, the
connector checks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from hookgw.kernel.errors import TooManyRequests, Unavailable, UnsupportedContentEncoding
from hookgw.kernel.sentences import Sentence
from hookgw.records.connectors import IngestRequest
from hookgw.web.body import read_body
from hookgw.web.first_headers import FirstHeaders
from hookgw.web.server.errors import JSON
from hookgw.web.server.exchange import RequestResponse

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_HARMLESS = ("text/plain", JSON)
_SANDBOXED = {"content-security-policy": "sandbox; default-src 'none'"}


class IngestAnswer(NamedTuple):
    """What the network gets back."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]


class IngestEndpoint:
    """Passes requests to connectors."""

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
            headers=dict(headers),
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
