"""Requests to Evolution API, and its refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from hookgw import NetworkRefused, Session
from hookgw.connectors import (
    REQUEST_TIMEOUT,
    NetworkClient,
    NetworkEvents,
    Unreachable,
    found_at,
    items,
    retry_after_of,
    text,
)
from hookgw.connectors import Refused as KitRefused

from .options import Options

_LONGEST_REASON = 300
_DEEPEST = 6
_NO_LICENSE = "LICENSE_REQUIRED"
_KEY_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Refused(KitRefused):
    """Evolution API refused a request.

    Attributes:
        is_missing: whether it has no such instance.
    """

    is_missing = False


class Client(NetworkClient):
    """Makes the requests of one instance."""

    server = "Evolution API"
    no_json = "Evolution API did not answer with JSON. Is base_url right?"

    def __init__(self, session: Session, options: Options) -> None:
        super().__init__(session, headers={"apikey": options.api_key}, secrets=[options.api_key])
        self._root = options.base_url
        self.remote = options.remote

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        events: Sequence[str] = (),
        seconds: float = REQUEST_TIMEOUT,
    ) -> Any:
        """Make a request to ``/<path>/<remote>``, and return the JSON of the response.

        ``events`` says what may be long in the response; see ``Session.decode_json``.
        """
        return await self.request_json(
            method, self.url_of(path) + query, body=body, timeout=seconds, events=events
        )

    async def list(self, method: str, path: str, *, query: str = "") -> list[Any]:
        """Make a request whose response is a list, of any length; see :meth:`call`."""
        found = await self.call(method, path, query=query, events=("/#",))
        return list(found) if isinstance(found, NetworkEvents | list) else []

    async def account(self) -> dict[str, Any]:
        """Return what Evolution API tells of the instance's account; empty if it tells nothing."""
        url = f"{self._root}/instance/fetchInstances?instanceName={quote(self.remote, safe='')}"
        response = await self.request("GET", url, timeout=10.0)
        if not response.is_success:
            raise self.refusal(response, (await self.decode(response.content))[0])
        found, _ = await self.decode(response.content, events=("/#",))
        for one in found if isinstance(found, NetworkEvents) else ():
            if isinstance(one, dict) and one.get("name", self.remote) == self.remote:
                return one
        return {}

    def url_of(self, path: str) -> str:
        return f"{self._root}/{path}/{quote(self.remote, safe='')}"

    def refusal(self, response: httpx.Response, answer: Any) -> NetworkRefused:
        """Return the error with the reason that Evolution API gives."""
        status = response.status_code
        if status < HTTPStatus.BAD_REQUEST:
            return Unreachable(f"Evolution API answered with {status}. Is base_url right?")
        said = self.hide(" ".join(_sentences(answer)))[:_LONGEST_REASON]
        reason = said or f"Evolution API answered with {status}."
        # What is wrong between hookgw and Evolution API is no fault of the caller's: a 401 or 404 would look
        # as if the caller's own key or instance were wrong.
        shown = status
        is_missing = status == HTTPStatus.NOT_FOUND and "does not exist" in said
        if status in _KEY_REFUSED:
            shown, reason = HTTPStatus.CONFLICT, "Evolution API refuses the option api_key of this instance."
        elif is_missing:
            shown = HTTPStatus.CONFLICT
            reason = f"Evolution API has no instance {self.remote!r}: create it there, or change remote."
        elif status == HTTPStatus.SERVICE_UNAVAILABLE and _NO_LICENSE in str(answer):
            shown = HTTPStatus.CONFLICT
            reason = (
                "Evolution API is not activated (LICENSE_REQUIRED), as versions from 2.4 on must be. "
                "Activate it in its manager."
            )
        elif status == HTTPStatus.NOT_FOUND or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            shown = HTTPStatus.BAD_GATEWAY
        refused = Refused(
            reason,
            remote_status=status,
            status=shown,
            retry_after=retry_after_of(response),
            unknown_numbers=dict(_unknown_numbers(answer)),
        )
        refused.is_missing = is_missing
        return refused


def _sentences(answer: Any, depth: int = 0) -> Iterator[str]:
    """Yield what an error says: ``{"response": {"message": [["…"]]}}``, in any of its forms."""
    if isinstance(answer, str) and answer:
        yield answer
    elif isinstance(answer, list) and depth < _DEEPEST:
        for item in answer[:10]:
            yield from _sentences(item, depth + 1)
    elif isinstance(answer, dict):
        if answer.get("exists") is False and isinstance(answer.get("number"), str):
            yield f"{answer['number']} is not on WhatsApp."
        elif depth < _DEEPEST:
            for name in ("response", "message"):
                if name in answer:
                    yield from _sentences(answer[name], depth + 1)
                    return


def _unknown_numbers(answer: Any) -> Iterator[tuple[str, str]]:
    """Yield the numbers that nobody has on WhatsApp: ``{"response": {"message": [{"jid", …}]}}``."""
    for one in items(found_at(answer, "response", "message")):
        number = text(one.get("number"))
        if one.get("exists") is False and number:
            yield number, text(one.get("jid")) or number
