"""The webhooks: notifications as Meta composes them, signed, and repeated until a 200."""

import hashlib
import hmac
import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import httpx
import trio

from tests.networks.whatsapp_cloud.graph import ACCOUNT, CUSTOMER, NUMBER, SECRET, WABA

VERIFY_TOKEN = "the verify token of the tests"
CHALLENGE = "1158201444"
USER_ID = "US.13491208655302741918"
_numbers = count(1)


def message(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    """Return a message that somebody sent: webhooks/reference/messages/<kind>."""
    found: dict[str, Any] = {
        "from": CUSTOMER,
        "from_user_id": USER_ID,
        "id": f"wamid.HBgLIN{next(_numbers):08d}VAgASGBQz=",
        "timestamp": "1749416383",
        "type": kind,
    }
    return {**found, **({} if content is None else {kind: content}), **more}


def text_message(body: str, **more: Any) -> dict[str, Any]:
    """Return a text: webhooks/reference/messages/text."""
    return message("text", {"body": body}, **more)


def status(id_: str, word: str, **more: Any) -> dict[str, Any]:
    """Return a status: webhooks/reference/messages/status."""
    found = {"id": id_, "status": word, "timestamp": "1749416390", "recipient_id": CUSTOMER}
    return {**found, "recipient_user_id": USER_ID, **more}


def contact(name: str = "Sheena Nelson", wa_id: str = CUSTOMER, user_id: str = USER_ID) -> dict[str, Any]:
    """Return the contact beside a message; user_id: business-scoped-user-ids."""
    return {"profile": {"name": name}, "wa_id": wa_id, "user_id": user_id}


def value(
    *,
    messages: Sequence[dict[str, Any]] = (),
    statuses: Sequence[dict[str, Any]] = (),
    number: str = NUMBER,
    **more: Any,
) -> dict[str, Any]:
    """Return the value of a change: webhooks/overview."""
    found: dict[str, Any] = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": ACCOUNT, "phone_number_id": number},
        "contacts": [contact()],
        **more,
    }
    if messages:
        found["messages"] = list(messages)
    if statuses:
        found["statuses"] = list(statuses)
    return found


def notification(*values: dict[str, Any], field: str = "messages") -> dict[str, Any]:
    """Return a notification with an entry for each value: webhooks/overview."""
    entries = [{"id": WABA, "changes": [{"value": one, "field": field}]} for one in values]
    return {"object": "whatsapp_business_account", "entry": entries}


def encode(body: Any) -> bytes:
    """Return a body as Meta writes it: other characters than ASCII are escaped."""
    return json.dumps(body, separators=(",", ":")).encode().replace(b"/", b"\\/")


def signature(body: bytes, secret: str = SECRET) -> str:
    """Return the signature: webhooks/create-webhook-endpoint, and
    https://developers.facebook.com/docs/graph-api/webhooks/getting-started (validating payloads)."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class Sender:
    """Sends notifications to one URL.

    Args:
        url: the ``ingestUrl``.
        http: makes the requests; the caller closes it.
    """

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = url
        self._http = http

    async def verify(self, token: str = VERIFY_TOKEN, challenge: str = CHALLENGE) -> httpx.Response:
        """Check the URL: webhooks/create-webhook-endpoint, verification requests."""
        query = {"hub.mode": "subscribe", "hub.challenge": challenge, "hub.verify_token": token}
        return await self._http.get(self._url, params=query)

    async def post(self, body: Any, *, secret: str = SECRET) -> httpx.Response:
        """Send a notification once."""
        raw = body if isinstance(body, bytes) else encode(body)
        headers = {"content-type": "application/json", "x-hub-signature-256": signature(raw, secret)}
        return await self._http.post(self._url, content=raw, headers=headers)

    async def deliver(self, body: Any, *, wait: float = 0.05) -> int:
        """Send a notification until it gets a 200, as Meta does for seven days; return how often.

        webhooks/overview: anything but a 200 is repeated, with decreasing frequency. (Here in milliseconds.)
        """
        raw = encode(body)
        for attempt in count(1):
            try:
                if (await self.post(raw)).status_code == 200:
                    return attempt
            except httpx.HTTPError:
                pass  # also if the answer was lost: Meta cannot know
            await trio.sleep(wait)
        raise AssertionError
