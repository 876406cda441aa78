"""The options of simulated instances. No I/O."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookgw.connectors import check_names
from hookgw.kernel.units import Duration, parse_duration


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated instance behaves. :data:`OPTIONS_SCHEMA` describes each field."""

    rate: Annotated[float, Meta(ge=0, le=10_000)] = 1.0
    messages: Annotated[int, Meta(ge=0)] | None = None
    chats: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    seed: int | None = None
    connect_delay: Duration = Duration(1)
    qr_code: bool = True
    status_delay: Duration = Duration(0.5)
    app_secret: str = ""
    verify_token: str = ""
    fail_send: Annotated[float, Meta(ge=0, le=1)] = 0.0
    limit_rate: Annotated[float, Meta(gt=0)] | None = None
    slow_send: Duration = Duration(0)
    lose_connection: Duration | None = None
    log_out_after: Duration | None = None
    lose_media: bool = False


def _duration(meaning: str, **more: Any) -> dict[str, Any]:
    # Without a unit only 0, as in the configuration.
    form = {
        "type": ["string", "integer"],
        "pattern": "^([0-9.]+ *(ms|s|m|h|d|w)|0)$",
        "minimum": 0,
        "maximum": 0,
    }
    return {"description": f"{meaning}, such as 2s.", **form, **more}


# hookgw checks the fields of a creation request against this schema. The HTTP API, the commands and the pages
# show it. What is writeOnly is a secret: it is masked wherever the options are read.
OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rate": {
            "description": "Incoming messages per second; 0 for none.",
            "type": "number",
            "minimum": 0,
            "maximum": 10_000,
            "default": 1,
        },
        "messages": {
            "description": "The number of incoming messages in all; by default without end.",
            "type": "integer",
            "minimum": 0,
        },
        "chats": {
            "description": "The number of chats with incoming messages; every fifth chat is a group.",
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000_000,
            "default": 10,
        },
        "seed": {
            "description": "The same seed gives the same messages; by default they differ.",
            "type": "integer",
        },
        "connect_delay": _duration("How long the QR code is shown before the connection opens", default="1s"),
        "qr_code": {"description": "Whether to show a QR code.", "type": "boolean", "default": True},
        "status_delay": _duration("The time between two status steps of a sent message", default="500ms"),
        "app_secret": {
            "description": "Proves the requests to ingestUrl; without it, they are refused.",
            "type": "string",
            "writeOnly": True,
        },
        "verify_token": {
            "description": "Proves that the network may verify ingestUrl; without it, it may not.",
            "type": "string",
            "writeOnly": True,
        },
        "fail_send": {
            "description": "The share of sent messages that the network refuses, from 0 to 1.",
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 0,
        },
        "limit_rate": {
            "description": "Sent messages per second, above which the network refuses; by default no limit.",
            "type": "number",
            "exclusiveMinimum": 0,
        },
        "slow_send": _duration("How long the network takes to answer a sent message", default="0"),
        "lose_connection": _duration("The connection breaks after this time"),
        "log_out_after": _duration("The network logs the account out after this time"),
        "lose_media": {
            "description": "Whether the network no longer has the files of incoming messages.",
            "type": "boolean",
            "default": False,
        },
    },
}


def read_options(options: dict[str, Any], *, strict: bool) -> Options:
    """Return the options in a block.

    Args:
        options: the block.
        strict: whether an unknown name is an error.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value; the message names it.
    """
    # Not strict for an instance: it may have options that a later version of this plugin took.
    if strict:
        check_names(options, Options.__struct_fields__, "the simulator has no option {}; its options are ")
    return msgspec.convert(options, Options, dec_hook=lambda _, value: parse_duration(value))
