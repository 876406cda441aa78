"""Requests to a GOWA server, and its errors."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx

from hookgw import Session
from hookgw.connectors import REQUEST_TIMEOUT, NetworkClient, mapping, retry_after_of, text
from hookgw.connectors import Refused as KitRefused

from .options import Options

FILE_TIMEOUT = 120.0
"""Seconds for a message with a file, and for each part of a download."""
_LONGEST_REASON = 300
_NOT_LOGGED_IN = "AUTHENTICATION_ERROR"
_NOT_ON_WHATSAPP = re.compile(r"Phone (([0-9]{5,15})@s\.whatsapp\.net) is not on whatsapp", re.ASCII)
_STATICS = "statics/"


class Refused(KitRefused):
    """The server refused a request.

    Args:
        response: its answer.
        code: GOWA's word for the reason; empty for an answer that is not GOWA's own.
        words: GOWA's own words; empty for none.

    Attributes:
        word: as ``code``.
        is_logged_out: whether the account is not logged in, or not connected.
        is_missing: whether it has no such device.
    """

    def __init__(self, response: httpx.Response, code: str, words: str) -> None:
        status = response.status_code
        self.word = code
        self.is_logged_out = code == _NOT_LOGGED_IN
        is_unauthorized = status == HTTPStatus.UNAUTHORIZED and not self.is_logged_out
        # A device that it does not know is a fault of the server in some of its calls.
        self.is_missing = status in (404, 500) and "not found" in words and "device" in words.lower()
        reason = f"GOWA: {words[:_LONGEST_REASON]}" if words else f"The GOWA server answered with {status}."
        shown: int = status
        if is_unauthorized:
            reason = "The GOWA server does not accept the options user and password."
        elif self.is_logged_out:
            reason = (
                "The account is not logged in on the GOWA server, or not connected to WhatsApp. "
                "Connect the instance, and scan the code if there is one."
            )
        elif 300 <= status < 400:
            reason = f"The GOWA server redirects (status {status}); set base_url to the address behind it."
        # The callers of hookgw would take 401 for a wrong key, and 404 for a wrong instance of their own.
        if status == HTTPStatus.UNAUTHORIZED or self.is_missing:
            shown = HTTPStatus.CONFLICT
        elif not 400 <= status < 500 or status == HTTPStatus.NOT_FOUND:
            shown = HTTPStatus.BAD_GATEWAY
        unknown = _NOT_ON_WHATSAPP.fullmatch(words)
        super().__init__(
            reason,
            remote_status=status,
            status=shown,
            retry_after=retry_after_of(response),
            unknown_numbers={unknown[2]: unknown[1]} if unknown else None,
        )
        self.is_unauthorized = is_unauthorized


class Client(NetworkClient):
    """Makes requests for one device.

    Args:
        session: of the instance.
        options: of the instance.
        secret: signs the server's webhooks; it is masked.
    """

    server = "The GOWA server"
    no_json = "The GOWA server did not answer with JSON. Is base_url the URL of a GOWA server?"
    answer_type = dict

    def __init__(self, session: Session, options: Options, secret: str) -> None:
        headers = {"x-device-id": options.device}
        secrets = [options.password, secret]
        if options.user or options.password:
            credentials = base64.b64encode(f"{options.user}:{options.password}".encode()).decode()
            headers["authorization"] = f"Basic {credentials}"
            secrets.append(credentials)
        super().__init__(session, headers=headers, secrets=secrets)
        self._root = options.base_url.rstrip("/") + "/"
        self._device = options.device

    async def call(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        seconds: float = REQUEST_TIMEOUT,
        **more: Any,
    ) -> dict[str, Any]:
        """Make a request, and return the ``results`` of the answer; empty if they are no object.

        Args:
            method, path: of the request, in parts that are quoted here.
            query, body: of the request; the body is sent as JSON.
            seconds: for the whole request.
            more: for httpx: a form.

        Raises:
            Refused: the server says no.
            Unreachable: there is no answer, or it is not GOWA's.
        """
        answer = await self.request_json(
            method, self._url(path), params=query, body=body, timeout=seconds, **more
        )
        return mapping(answer.get("results"))

    async def of_device(self, method: str, *path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """Make a request below ``/devices/<device>``; see :meth:`call`."""
        return await self.call(method, "devices", self._device, *path, body=body, **more)

    def download(self, path: str) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a file of the server; the body of the response is still to be read.

        Args:
            path: as the server says it: a URL, or a path. Only what is behind ``statics/`` counts, so that
                it leads to no other server.

        Raises:
            Refused, Unreachable: see :meth:`call`; also for another path.
        """
        try:
            _, found, below = unquote(urlsplit(path).path).partition(_STATICS)
        except ValueError:  # such as http://[
            found = below = ""
        parts = below.split("/") if found else [".."]
        url = self._url(("statics", *parts)) if ".." not in parts else self._url(("statics", ""))
        # As it is: of a compressed file, the length would not be known.
        return self.open("GET", url, headers={"accept-encoding": "identity"}, timeout=FILE_TIMEOUT)

    def refusal(self, response: httpx.Response, answer: Any) -> Refused:
        """Return the error with the server's words."""
        answer = mapping(answer)
        return Refused(response, text(answer.get("code")), self.hide(text(answer.get("message"))))

    def _url(self, path: tuple[str, ...]) -> str:
        return self._root + "/".join(quote(part, safe="") for part in path)
