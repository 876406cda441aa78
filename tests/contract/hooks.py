"""What schemathesis must know beyond the schemas; see ``nox -s contract``."""

import os
import re
from typing import Any

import schemathesis
from hypothesis import strategies as st

from tests.public.records import FilterOp

RECEIVER = os.environ["HOOKGW_CONTRACT_RECEIVER"]
"""The URL of the receiver."""
OPS = [*FilterOp]
ASK_FOR_OPTIONS = ("evolution", "gowa", "matrix", "telegram", "waha", "webhook", "whatsapp_cloud")
"""Connectors that need options."""
WHSK = re.compile(r"whsk_[A-Za-z0-9+/]{86}==")
EVENT_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")
# From the test vectors that Standard Webhooks publishes.
PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="


def without_signature(body: Any) -> Any:
    """Remove a valid ``signature``, because it may not match the secret beside it."""
    if not isinstance(body, dict):
        return body
    left = {name: value for name, value in body.items() if name != "signature" or value not in ("v1", "v1a")}
    return left | ({"webhook": without_signature(left["webhook"])} if "webhook" in left else {})


def without_zero(value: Any, name: str = "") -> Any:
    """Replace durations of 0, which is no string and yet accepted, by another mistake."""
    if isinstance(value, dict):
        return {inner: without_zero(one, inner) for inner, one in value.items()}
    if isinstance(value, list) and name == "schedule":
        return ["never" if wait == 0 else wait for wait in value]
    return "never" if name == "grace" and value == 0 else value


def as_compared(body: Any) -> Any:
    """Remove what is not checked in a document, or only against what there is.

    These are defaults that nothing takes, fields for its readers, and the connector of an instance that has
    another one, which is a conflict.
    """
    if not isinstance(body, dict):
        return body
    found = {name: None if name == "defaults" else one for name, one in body.items() if name[:2] != "x-"}
    if isinstance(body.get("instances"), dict):
        found["instances"] = {
            name: one | {"connector": None} if isinstance(one, dict) else one
            for name, one in body["instances"].items()
        }
    return found


def without_values(body: Any) -> Any:
    """Let conditions of filters ask only whether there is a value: the operation decides what it may be."""
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("filter"), list):
        asked = [
            condition | {"op": "exists", "value": None}
            if isinstance(condition, dict) and condition.get("op") in OPS
            else condition
            for condition in body["filter"]
        ]
        body = body | {"filter": asked}
    return body | ({"webhook": without_values(body["webhook"])} if "webhook" in body else {})


def without_names(body: Any) -> Any:
    """Remove texts of ``tls`` that begin as PEM does, and its name: only real ones are accepted."""
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("tls"), dict):
        left = {
            name: value
            for name, value in body["tls"].items()
            if not isinstance(value, str) or not (name == "serverName" or "-----BEGIN" in value)
        }
        if ("clientKey" in left) is not ("clientCertificate" in left):  # they go together
            left = {name: value for name, value in left.items() if not name.startswith("client")}
        body = body | {"tls": left}
    return body | ({"webhook": without_names(body["webhook"])} if "webhook" in body else {})


def without_fragment(body: Any) -> Any:
    """Remove the fragment of a URL, such as one that another response had: its secret is never sent."""
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("url"), str):
        body = body | {"url": body["url"].partition("#")[0]}
    return body | ({"webhook": without_fragment(body["webhook"])} if "webhook" in body else {})


def without_backfill(body: Any) -> Any:
    """Remove ``backfill: true``: whether it may be given depends on what the registration was before."""
    if not isinstance(body, dict):
        return body
    left = {name: value for name, value in body.items() if name != "backfill" or value is not True}
    return left | ({"webhook": without_backfill(left["webhook"])} if "webhook" in left else {})


def with_span(body: Any) -> Any:
    """Replace the durations of ``catchUp``, which may be no shorter than a minute."""
    if isinstance(body, dict) and isinstance(body.get("catchUp"), dict):
        span = body["catchUp"].get("span")
        if isinstance(span, str) and span[:1].isdigit():
            return body | {"catchUp": body["catchUp"] | {"span": "1h"}}
    return body


def without_zeros(query: Any) -> Any:
    """Replace times of 0 in a query, where a number is a text, and accepted."""
    if not isinstance(query, dict):
        return query
    return {name: "never" if value in (0, "0") else value for name, value in query.items()}


def without_flags(query: Any) -> Any:
    """Replace 0 and 1 in a query, which are accepted for false and true."""
    if not isinstance(query, dict):
        return query
    return {name: "never" if str(value) in ("0", "1") else value for name, value in query.items()}


def as_served(body: Any) -> Any:
    """Replace what only some values of a schema are: private keys, and connectors that need no options."""
    if not isinstance(body, dict):
        return body
    if WHSK.fullmatch(str(body.get("secret"))):
        body = body | {"secret": PRIVATE_KEY}
    if body.get("integration") in ASK_FOR_OPTIONS:
        body = body | {"integration": "simulator"}
    return body | ({"webhook": as_served(body["webhook"])} if "webhook" in body else {})


def without_empty_lists(value: Any, name: str = "") -> Any:
    """Replace ``[]``, which is accepted for an object without fields."""
    if isinstance(value, dict):
        return {
            inner: without_empty_lists(one, name if name in MAPS else inner) for inner, one in value.items()
        }
    return [0] if value == [] and name in OBJECTS else value


def before_call(_: object, case: Any, __: object) -> None:
    """Adjust requests where hookgw has rules that no schema expresses."""
    path = case.operation.path
    if path.endswith(("/list", "/list/{instance}")) or path.startswith(WITH_FLAGS):
        query = (without_flags if path.startswith(WITH_FLAGS) else without_zeros)(case.query)
        # An assignment is judged anew, and schemathesis takes each null for a mistake.
        if query != case.query:
            case.query = query
    elif path.startswith("/event/emit/"):
        drop_key(case)
        if path.endswith("{kind}") and isinstance(case.body, dict) and {"event", "data"} <= case.body.keys():
            # The ``event`` must be the kind in the path; the rest is a payload of any kind.
            case.body = {name: value for name, value in case.body.items() if name != "event"}
    for start, changes in OF_BODIES.items():
        if path.startswith(start):
            for change in changes:
                body = change(case.body)
                if body != case.body:
                    case.body = body


def without_delay(body: Any) -> Any:
    """Replace a ``delay`` for which schemathesis would not wait."""
    if not isinstance(body, dict):
        return body
    found = body | ({"options": without_delay(body["options"])} if "options" in body else {})
    delay = found.get("delay")
    return found | {"delay": 0} if isinstance(delay, int | float) and 5_000 < delay <= 60_000 else found


def drop_key(case: Any) -> None:
    """Remove a valid Idempotency-Key for a batch or for an event with an id: hookgw refuses it."""
    items = case.body if isinstance(case.body, list) else [case.body]
    if len(items) == 1 and not (isinstance(items[0], dict) and items[0].get("id") is not None):
        return
    for name in [name for name in case.headers or () if name.lower() == "idempotency-key"]:
        if EVENT_ID.fullmatch(str(case.headers[name])):
            del case.headers[name]


def at_the_receiver(value: Any) -> Any:
    """Replace the URLs of the examples, because looking up their host takes time."""
    if isinstance(value, dict):
        return {name: at_the_receiver(inner) for name, inner in value.items()}
    return f"{RECEIVER}/crm" if value == "https://crm.example/hook" else value


def with_number(body: Any) -> Any:
    """Replace numbers: each connector has its own rules for them."""
    number = body.get("number") if isinstance(body, dict) else None
    if (
        isinstance(number, bool)
        or not isinstance(number, int | str)
        or not 1 <= len(str(number).strip()) <= 128
    ):
        return body
    return body | {"number": "5511988887777"}


WITH_FLAGS = ("/apply", "/group/fetchAllGroups/")
MAPS = frozenset({"instances", "keys", "plugins", "webhooks"})
"""Fields that are objects of objects, by names."""
OBJECTS = MAPS | {
    *("", "catchUp", "defaults", "headers", "key", "mentions", "message", "messageTimestamp"),
    *("options", "quoted", "retry", "settings", "tags", "tls", "webhook", "where"),
}
"""Fields, and the whole body, that are objects and may be without fields."""
OF_REGISTRATIONS = (
    *(at_the_receiver, without_fragment, without_signature, without_zero, without_values, without_names),
    *(without_backfill, as_served),
)
OF_BODIES: dict[str | tuple[str, ...], Any] = {
    ("/apply", "/chat/", "/delivery/", "/event/erase/", "/instance/", "/key/", "/message/", "/portal/"): (
        without_empty_lists,
    ),
    ("/problem/", "/settings/", "/storage/", "/webhook/"): (without_empty_lists,),
    "/apply": (without_zero, as_compared),
    "/webhook/set/": OF_REGISTRATIONS,
    "/webhook/backfill/": (without_values,),
    "/webhook/rotateSecret/": (without_zero,),
    "/instance/create": (*OF_REGISTRATIONS, with_span),
    "/instance/options/": (with_span,),
    "/message/": (without_delay,),
    "/message/sendText/": (with_number,),
}
"""What changes bodies, by how the path begins."""

# Most strings that look like URLs name no host that there could be.
schemathesis.openapi.format(
    "target-url", st.text("abcdefgh0123456789-_~/?=&%", max_size=40).map(lambda path: f"{RECEIVER}/{path}")
)
# Every duration here lies between the bounds of every field.
schemathesis.openapi.format("duration-with-unit", st.sampled_from(["1s", "1.5 M", "30s", "1000ms", "5m"]))
schemathesis.openapi.format("time-or-duration", st.sampled_from(["2h", "2026-11-20T12:00:00Z", "3d"]))
# The store's cursors are opaque, so the document names only a format.
schemathesis.openapi.format("cursor", st.sampled_from(["dlv_1", "dlv_17"]))
hook: Any = schemathesis.hook
hook(before_call)
