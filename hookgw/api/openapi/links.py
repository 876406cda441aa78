"""Which call leads to which: what one answers is what others name. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INSTANCE = {"instance": "$request.path.instance"}
_LABELLED = _INSTANCE | {"label": "$request.path.label"}
_MADE = {"instance": "$response.body#/instance/instanceName"}
_REGISTRATION = (
    "webhookFind",
    "webhookTest",
    "webhookSecret",
    "webhookPublicKey",
    "webhookRotateSecret",
    "webhookResume",
)

LEADS: tuple[tuple[str, str, Mapping[str, str], tuple[str, ...]], ...] = (
    (
        "instanceCreate",
        "201",
        _MADE,
        ("webhookSet", "instanceConnect", "instanceConnectionState", "messageSendText", "instanceDelete"),
    ),
    ("keyCreate", "201", _INSTANCE | {"key_name": "$response.body#/name"}, ("keyDelete",)),
    ("keyCreateGlobal", "201", {"key_name": "$response.body#/name"}, ("keyDeleteGlobal",)),
    ("instanceConnect", "200", _INSTANCE, ("messageSendText", "instanceLogout")),
    ("webhookSet", "201", _INSTANCE, (*_REGISTRATION, "webhookDelete", "eventEmit")),
    (
        "webhookSetLabelled",
        "201",
        _LABELLED,
        tuple(f"{name}Labelled" for name in (*_REGISTRATION, "webhookDelete")),
    ),
    ("eventEmit", "202", _INSTANCE, ("deliveryList", "deliveryReplay")),
    (
        "eventEmit",
        "202",
        _INSTANCE | {"id": "$response.body#/ids/0"},
        ("deliveryFind", "deliveryResend"),
    ),
)
"""An operation, the status of its answer, what the others are given of it, and those others."""


def links_of(operation_id: str, status: str) -> dict[str, Any]:
    """The links of an answer."""
    return {
        target: {"operationId": target, "parameters": dict(given)}
        for source, answered, given, targets in LEADS
        if (source, answered) == (operation_id, status)
        for target in targets
    }
