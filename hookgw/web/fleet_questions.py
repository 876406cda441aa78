"""Answers the questions of other nodes; see :mod:`hookgw.fleet.all_nodes`.

It bypasses Quart and is no route: a request without a node's signature gets a 404.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Any

import msgspec
import structlog

from hookgw.fleet.all_nodes import PATH, AllNodes, digest_of
from hookgw.kernel.sentences import Sentence
from hookgw.web.server.errors import error_body
from hookgw.web.server.exchange import Gone, RequestResponse

logger = structlog.get_logger("hookgw.fleet")


class FleetQuestions:
    def __init__(self, nodes: AllNodes) -> None:
        self._nodes = nodes

    async def respond(self, exchange: RequestResponse) -> None:
        """Answer a request below :data:`PATH` with a node's signature."""
        scope: Any = exchange.scope
        exchange.route = f"{PATH}<question>"
        body = b"".join([chunk async for chunk in exchange.chunks()])
        answer = None
        # The signature covers the target, and the target the body.
        if scope["method"] == "POST" and compare_digest(scope["query_string"], digest_of(body).encode()):
            try:
                answer = await self._nodes.answer(scope["path"][len(PATH) :], body)
            except Gone:
                raise
            except msgspec.MsgspecError:
                pass  # of another version
            except Exception:
                logger.exception("a node's question failed", path=scope["path"])
        if answer is None:
            await exchange.respond(
                404, {}, error_body(404, [Sentence("fleet.no_question", "No such question.")])
            )
        else:
            await exchange.respond(200, {}, answer, "application/msgpack")
