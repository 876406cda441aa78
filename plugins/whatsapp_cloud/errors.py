"""What Meta's error codes mean for the caller. No I/O.

Codes, from Meta's pages "Error codes" (WhatsApp Business Platform) and "Handling Errors" (Graph API).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from hookgw.connectors import found_at, mapping, number, text, texts

TOKEN_REFUSED = frozenset({"0", "102", "190"})
"""The access token has expired, was revoked, or is none."""
TEMPORARY = frozenset({"1", "2", "131000", "131016", "131057", "133004", "135000", "2494100"})
"""The same request may succeed later."""

_HOUR = 3600.0
# Seconds to wait where the response names none. Limits on calls count an hour; the pair rate allows a message
# every six seconds; the throughput is counted by the second.
_WAITS = {
    "4": 300.0,
    "17": 300.0,
    "32": 300.0,
    "341": 300.0,
    "613": 60.0,
    "80007": 300.0,
    "80008": 300.0,
    "130429": 1.0,
    "131048": _HOUR,
    "131056": 6.0,
    "131064": _HOUR,
    "131208": 60.0,
    "133016": _HOUR,
}
_STATUSES = {
    # The state of the chat or of the account does not allow it.
    "131047": HTTPStatus.CONFLICT,
    "131049": HTTPStatus.CONFLICT,
    "131050": HTTPStatus.CONFLICT,
    "130472": HTTPStatus.CONFLICT,
    "131026": HTTPStatus.UNPROCESSABLE_ENTITY,
    "131021": HTTPStatus.UNPROCESSABLE_ENTITY,
    "132001": HTTPStatus.UNPROCESSABLE_ENTITY,
    "131042": HTTPStatus.PAYMENT_REQUIRED,
    **dict.fromkeys(("3", "10", "368", "131005", "131030", "131031", "130497"), HTTPStatus.FORBIDDEN),
}
_HINTS = {
    "131047": "The 24-hour window is over: the recipient has not written for 24 hours. Send a template"
    " (POST /message/sendTemplate) instead.",
    "131026": "WhatsApp cannot deliver to this number: it is not on WhatsApp, its app is too old, or its"
    " owner has not accepted the current terms.",
    "131030": "The number is not in the list of recipients of Meta's test number. Add it in the app's"
    " dashboard (WhatsApp, API Setup).",
    "131049": "Meta holds this message back so that the recipient does not get too many. Wait for at least"
    " 24 hours.",
    "131050": "The recipient has stopped marketing messages of this business.",
    "131042": "Meta sends nothing until the account has a valid payment method.",
    "131048": "Too many recipients have blocked or reported this number. Meta limits what it may send.",
    "131056": "Too many messages to this recipient in a short time.",
    "130429": "Too many messages of this number in a short time.",
    "131051": "WhatsApp does not support this type of message.",
    "131052": "WhatsApp could not load the file that the user sent.",
    "131053": "WhatsApp could not load the file, or does not take files of its type.",
    "132001": "There is no approved template of this name in this language.",
    "132015": "The template is paused, because recipients rated it as bad.",
    "132016": "The template is disabled for good, because it was paused too often.",
    "133010": "The phone number is not registered for the Cloud API (POST /<phone_number_id>/register"
    " at Meta).",
}
_LONGEST = 300
_CODE_BEFORE = re.compile(r"^\(#\d+\)\s*")


class GraphError(msgspec.Struct, frozen=True, kw_only=True):
    """An error, as the Graph API or a webhook describes it.

    Attributes:
        code: Meta's code; empty if there is none.
        reason: a sentence: Meta's title and details, and what to do.
        status: the HTTP status for hookgw's caller.
        retry_after: seconds to wait before a retry; ``None`` if that would not help.
        is_token_refused: whether another access token is needed.
        is_temporary: whether the same request may succeed later.
    """

    code: str
    reason: str
    status: int
    retry_after: float | None
    is_token_refused: bool
    is_temporary: bool


def read_error(body: Any, status: int, retry_after: float | None) -> GraphError:
    """Return the error in the decoded body of a response.

    Args:
        body: anything.
        status: of the response.
        retry_after: seconds that the headers of the response say.
    """
    error = mapping(found_at(body, "error"))
    code = code_of(error)
    is_limited = code in _WAITS or status == HTTPStatus.TOO_MANY_REQUESTS
    is_temporary = (
        is_limited or code in TEMPORARY or error.get("is_transient") is True or status >= 500 or not code
    )
    return GraphError(
        code=code,
        reason=_reason(error, code) or f"The Graph API answered with {status}.",
        status=HTTPStatus.TOO_MANY_REQUESTS if is_limited else _status_of(code, status),
        retry_after=(retry_after or _WAITS.get(code, 60.0)) if is_limited else None,
        is_token_refused=code in TOKEN_REFUSED,
        is_temporary=is_temporary and code not in TOKEN_REFUSED,
    )


def code_of(error: Mapping[str, Any]) -> str:
    """Return the code of an error as a text; empty if there is none."""
    found = number(error.get("code"))
    return "" if found is None else str(found)


def _details_of(error: Mapping[str, Any]) -> str:
    # In "error_data" today, beside the title in the former form.
    data = error.get("error_data")
    return text(mapping(data).get("details")) or text(data) or text(error.get("details"))


def described(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error with Meta's code and words, and a sentence that says what to do."""
    code = code_of(error)
    shown = {"title": error.get("title"), "message": error.get("message"), "details": _details_of(error)}
    found: dict[str, Any] = {"code": int(code)} if code else {}
    return {**found, **texts({**shown, "hint": _HINTS.get(code, ""), "href": error.get("href")})}


def _status_of(code: str, status: int) -> int:
    if found := _STATUSES.get(code):
        return found
    # 200 to 299 are missing permissions.
    if code.isdigit() and 200 <= int(code) < 300:
        return HTTPStatus.FORBIDDEN
    if code in TEMPORARY or status >= 500 or status < 400:
        return HTTPStatus.BAD_GATEWAY
    # The caller would take a 401 for a wrong key of its own, and a 404 for a wrong path.
    is_misleading = code in TOKEN_REFUSED or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND)
    return HTTPStatus.CONFLICT if is_misleading else status


def _reason(error: Mapping[str, Any], code: str) -> str:
    title = _CODE_BEFORE.sub("", text(error.get("message")) or text(error.get("title")))
    details = _details_of(error) or text(error.get("error_user_msg"))
    parts = [title[:_LONGEST], "" if details == title else details[:_LONGEST], _HINTS.get(code, "")]
    said = " ".join(f"{part.strip().rstrip('.')}." for part in parts if part.strip(" ."))
    return f"{said} (code {code})" if said and code else said
