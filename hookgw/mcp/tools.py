"""The tools: what an assistant may ask and do, as calls of the HTTP API.

The API decides what a key may do, so the tools have no rules about that. A tool that changes many deliveries
takes their count, which ``count_deliveries`` returns: nobody replays or cancels what they have not counted.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import jsonschema_rs

from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import parse_duration
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import DeliveryState
from hookgw.records.figures import Span
from hookgw.records.payload_schemas import reason_of
from hookgw.records.tags import MOST_TAGS, tag_texts

MOST_LISTED = 100
"""Items of a list in one answer: an assistant reads all of them."""
MOST_OF_GROUP = 5
"""Problems with one cause in one answer; their numbers tell the rest."""

Schema = dict[str, Any]


class Refused(Exception):
    """The call cannot be carried out; the messages are sentences."""

    def __init__(self, *messages: str) -> None:
        super().__init__(" ".join(messages))
        self.messages = messages


class Api(Protocol):
    """Calls the HTTP API with the caller's key."""

    async def call(
        self,
        method: str,
        *path: str | None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the decoded response, an array with all of its pages; or raise :class:`Refused`.

        Segments of the path, and values of the query and of the body, that are ``None`` are left out.
        """

    async def now(self) -> float:
        """Return the gateway's time, in seconds since the epoch; or raise :class:`Refused`."""


class Tool(NamedTuple):
    """A tool.

    Attributes:
        reads: whether it changes nothing.
        destroys: whether what it does cannot be taken back.
    """

    name: str
    description: str
    schema: Schema
    run: Callable[[Api, dict[str, Any]], Awaitable[Any]]
    reads: bool = True
    destroys: bool = False


def _text(meaning: str, **more: Any) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": 255, "description": meaning, **more}


_INSTANCE = _text("The name of the instance (the messaging account).")
_LABEL = _text("The label of the webhook; without it, all of them, or the one called default.")
_TIME = "An RFC 3339 time such as 2026-11-20T12:00:00Z, or a time ago: 10m, 2h, 3d."
_CHOICE: Schema = {
    "since": _text(f"Only events accepted since then. {_TIME}"),
    "until": _text(f"Only events accepted before then. {_TIME}"),
    "kinds": {
        "type": "array",
        "items": _text("An event kind, such as MESSAGES_UPSERT."),
        "maxItems": 50,
        "description": "Only events of these kinds.",
    },
    "label": _LABEL,
}
_FINISHED = _text(f"Only deliveries that became delivered or dead since then. {_TIME}")
_COUNT: Schema = {
    "type": "integer",
    "minimum": 1,
    "description": "What count_deliveries has returned for the same arguments.",
}
_PAGE: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "description": "Of one answer."},
    "cursor": _text("The cursor of the answer before.", maxLength=1_000),
}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


async def _problems(api: Api, _given: dict[str, Any]) -> Any:
    found = await api.call("GET", "problem", "list")
    for one in found["problems"]:
        one["problems"] = one["problems"][:MOST_OF_GROUP]
    return {"problems": found["problems"][:MOST_LISTED], "matching": len(found["problems"]) + found["others"]}


async def _figures(api: Api, given: dict[str, Any]) -> Any:
    query = {"span": given.get("span", Span.DAY), "webhook": given.get("label")}
    return await api.call("GET", "figures", "find", given.get("instance"), query=query)


async def _instances(api: Api, given: dict[str, Any]) -> Any:
    query: dict[str, Any] = {"tag": tag_texts(given.get("tags", {}))}
    if "search" in given:
        query["search"] = given["search"]
    found = await api.call("GET", "instance", "fetchInstances", query=query)
    shown = [
        {
            "name": one["name"],
            "state": one["connectionStatus"],
            "reason": one.get("disconnectionReason"),
            "connector": one["connector"],
            "account": one["ownerJid"],
            "profile": one["profileName"],
            "pending": one["backlog"]["deliveries"],
            "tags": " ".join(tag_texts(one["tags"])),
        }
        for one in found
        if given.get("state") in (None, one["connectionStatus"])
    ]
    return {"instances": shown[:MOST_LISTED], "matching": len(shown)}


async def _list(resource: str, api: Api, given: dict[str, Any]) -> Any:
    query = {"limit": MOST_LISTED, **given}
    return await api.call("GET", resource, "list", query.pop("instance"), query=query)


async def _find(resource: str, api: Api, given: dict[str, Any]) -> Any:
    return await api.call("GET", resource, "find", given["instance"], given["id"])


async def _count(api: Api, given: dict[str, Any]) -> Any:
    action = given.pop("action")
    if action == "cancel":
        given.pop("state", None)  # only pending deliveries can be cancelled
        if "finishedSince" in given:
            raise Refused("finishedSince is for a replay: what is pending has not finished.")
    if "until" not in given:
        # A fixed end: what comes in meanwhile does not change the count. The gateway may tell its time in
        # whole seconds, and what has just come in belongs to the present one.
        given["until"] = rfc3339(math.floor(await api.now()) + 1)
    counted = await _matching(api, action, given)
    return {"count": counted, "tool": f"{action}_deliveries", "arguments": {**given, "count": counted}}


def _body(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_CHOICE, "state", "finishedSince") if action == "replay" else (*_CHOICE,)
    return {name: given[name] for name in names if name in given}


async def _matching(api: Api, action: str, given: Mapping[str, Any]) -> int:
    if action == "replay" and not {"since", "finishedSince"} & given.keys():
        raise Refused("since or finishedSince is missing: a replay needs the time from which to send again.")
    body = _body(action, given) | {"dryRun": True}
    found = await api.call("POST", "delivery", action, given["instance"], body=body)
    if found.get("complete") is False:
        raise Refused(f"More than {found['matching']:,} deliveries match. Choose a shorter time.")
    matching: int = found["matching"]
    return matching


async def _carry_out(action: str, api: Api, given: dict[str, Any]) -> Any:
    counted = await _matching(api, action, given)
    if counted != given["count"]:
        raise Refused(
            f"{counted:,} deliveries match now, not {given['count']:,}. Nothing was done: call "
            "count_deliveries again, show the person the count, and use the arguments that it returns."
        )
    return await api.call("POST", "delivery", action, given["instance"], body=_body(action, given))


async def _send_text(api: Api, given: dict[str, Any]) -> Any:
    body = {"number": given["number"], "text": given["text"]}
    return await api.call("POST", "message", "sendText", given["instance"], body=body)


async def _call_webhook(action: str, api: Api, given: dict[str, Any]) -> Any:
    return await api.call("POST", "webhook", action, given["instance"], given.get("label"))


_OF_ONE = _object(("instance",), instance=_INSTANCE, label=_LABEL)
_DELIVERY = _object(
    ("instance", "id"), instance=_INSTANCE, id=_text("The id of the delivery (dlv_17), or of its event.")
)
_STATE = {
    "enum": ["dead", "all"],
    "description": "dead (the default) for dead letters; all for every finished delivery. Of a replay only.",
}

TOOLS = (
    Tool(
        "why_is_this_failing",
        "Find out why nothing of an instance arrives: its connection, last event, webhooks, the head of each "
        "lane with the receiver's last answer, DNS, address, certificate; each with what to do. Call this "
        "first. Without an instance: the problems of all instances that the key reaches.",
        _object(instance=_INSTANCE),
        lambda api, given: api.call("GET", "diagnosis", given.get("instance")),
    ),
    Tool(
        "list_problems",
        "List what is wrong now by its cause, what loses most first: how many webhooks, accounts and pending "
        f"deliveries it concerns, since when, and {MOST_OF_GROUP} of the problems.",
        _object(),
        _problems,
    ),
    Tool(
        "show_figures",
        "Show what became of events and deliveries over time: accepted, delivered, dead letters, failed "
        "attempts by status, and percentiles of the receiver's time and of the whole way, in milliseconds.",
        _object(
            instance=_INSTANCE,
            label=_LABEL,
            span={"enum": [*Span], "description": "How far back; 24h by default."},
        ),
        _figures,
    ),
    Tool(
        "list_instances",
        f"List the instances that the key can access: at most {MOST_LISTED}, with how many match.",
        _object(
            state={"enum": [*ConnectionState], "description": "Only with this connection."},
            tags={
                "type": "object",
                "additionalProperties": _text("The value of the tag."),
                "maxProperties": MOST_TAGS,
                "description": 'Only with all of these tags, such as {"tenant": "acme"}.',
            },
            search=_text("Only if name, number, profile, connector, reason or a tag contains this text."),
        ),
        _instances,
    ),
    Tool(
        "list_webhooks",
        "List the webhooks of an instance: URL, event kinds, whether each is enabled, and why not.",
        _object(("instance",), instance=_INSTANCE),
        lambda api, given: api.call("GET", "webhook", "list", given["instance"]),
    ),
    Tool(
        "search_deliveries",
        "Search the deliveries (one event for one webhook) of an instance, newest first, with the last "
        "attempt and the receiver's answer. show_delivery has the event itself.",
        _object(
            ("instance",),
            instance=_INSTANCE,
            state={"enum": [*DeliveryState], "description": "Only this state."},
            kind=_text("Only events of this kind, such as MESSAGES_UPSERT."),
            label=_LABEL,
            since=_CHOICE["since"],
            until=_CHOICE["until"],
            finishedSince=_FINISHED,
            **_PAGE,
        ),
        partial(_list, "delivery"),
    ),
    Tool(
        "show_delivery",
        "Show a delivery: the event with its data, every attempt with status and the receiver's answer.",
        _DELIVERY,
        partial(_find, "delivery"),
    ),
    Tool(
        "search_events",
        "Search the events of an instance, whether a webhook wanted them or not, newest first, with data.",
        _object(
            ("instance",),
            instance=_INSTANCE,
            kind=_text("Only events of this kind, such as MESSAGES_UPSERT."),
            chat=_text("Only events about this chat: a number, or the network's id."),
            sender=_text("Only events by this sender: a number, or the network's id."),
            text=_text("Only events with this text in their data; case counts."),
            since=_CHOICE["since"],
            until=_CHOICE["until"],
            **_PAGE,
        ),
        partial(_list, "event"),
    ),
    Tool(
        "show_event",
        "Show an event by its id, with the deliveries that it made, or that no webhook wanted it.",
        _object(("instance", "id"), instance=_INSTANCE, id=_text("The id of the event.")),
        partial(_find, "event"),
    ),
    Tool(
        "count_deliveries",
        "Count what replay_deliveries or cancel_deliveries would change, before either is called, and return "
        "the arguments for it. Show the person the count and let them decide.",
        _object(
            ("action", "instance"),
            action={"enum": ["replay", "cancel"], "description": "What is to be done with them."},
            instance=_INSTANCE,
            state=_STATE,
            finishedSince=_FINISHED,
            **_CHOICE,
        ),
        _count,
    ),
    Tool(
        "replay_deliveries",
        "Send finished deliveries of an instance again, in their original order. Needs the count of "
        "count_deliveries for the same arguments; if it is another by now, nothing is done.",
        _object(
            ("instance", "count"),
            instance=_INSTANCE,
            state=_STATE,
            finishedSince=_FINISHED,
            **_CHOICE,
            count=_COUNT,
        ),
        partial(_carry_out, "replay"),
        reads=False,
        destroys=True,
    ),
    Tool(
        "cancel_deliveries",
        "Make pending deliveries of an instance dead letters, which can be replayed. Needs the count of "
        "count_deliveries for the same arguments; if it is another by now, nothing is done.",
        _object(("instance", "count"), instance=_INSTANCE, **_CHOICE, count=_COUNT),
        partial(_carry_out, "cancel"),
        reads=False,
        destroys=True,
    ),
    Tool(
        "resend_delivery",
        "Send one finished delivery again, at the end of its lane, with the same webhook-id.",
        _DELIVERY,
        lambda api, given: api.call("POST", "delivery", "resend", given["instance"], given["id"]),
        reads=False,
    ),
    Tool(
        "send_text",
        "Send a text message from an instance's account. A person receives it: ask before.",
        _object(
            ("instance", "number", "text"),
            instance=_INSTANCE,
            number=_text("The recipient: a phone number with its country code, or the network's id."),
            text=_text("The message.", maxLength=65_536),
        ),
        _send_text,
        reads=False,
        destroys=True,
    ),
    Tool(
        "test_webhook",
        "Send a signed test event to a webhook now, outside its lane. Return the status and the answer.",
        _OF_ONE,
        partial(_call_webhook, "test"),
        reads=False,
    ),
    Tool(
        "pause_webhook",
        "Let the deliveries of a webhook wait, in order, until resume_webhook. Nothing is lost.",
        _OF_ONE,
        partial(_call_webhook, "pause"),
        reads=False,
    ),
    Tool(
        "resume_webhook",
        "End the pause of a webhook; its waiting deliveries are tried at once.",
        _OF_ONE,
        partial(_call_webhook, "resume"),
        reads=False,
    ),
)

# Masked: a message repeats no value, which may be a whole document.
_BY_NAME = {tool.name: (tool, jsonschema_rs.validator_for(tool.schema, mask="it")) for tool in TOOLS}


async def run_tool(api: Api, name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of a tool, as values of JSON.

    Raises:
        Refused: there is no such tool, an argument is wrong, or the gateway refuses the call.
    """
    if name not in _BY_NAME:
        raise Refused(f"There is no tool {name[:64]!r}. The tools: {', '.join(_BY_NAME)}.")
    tool, validator = _BY_NAME[name]
    wrong = [
        f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {reason_of(error)}"
        for error in validator.iter_errors(arguments)
    ]
    if wrong:
        raise Refused(*wrong[:5])
    given = dict(arguments)
    for name in ("since", "until", "finishedSince"):
        with suppress(ValueError):  # it is a time, or the gateway says what is wrong with it
            ago = parse_duration(given.get(name, ""))
            given[name] = rfc3339(await api.now() - ago)
    return await tool.run(api, given)
