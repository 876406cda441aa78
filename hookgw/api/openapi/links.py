"""OpenAPI links: which fields of a response are parameters of other calls. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INSTANCE = {"instance": "$request.path.instance"}
_LABELLED = _INSTANCE | {"label": "$request.path.label"}
_CREATED = {"instance": "$response.body#/instance/instanceName"}
_REGISTRATION = (
    "webhookFind",
    "webhookTest",
    "webhookSecret",
    "webhookPublicKey",
    "webhookRotateSecret",
    "webhookResume",
    "webhookDelete",
)

LINKS: tuple[tuple[str, str, Mapping[str, str], tuple[str, ...]], ...] = (
    (
        "instanceCreate",
        "201",
        _CREATED,
        ("webhookSet", "instanceConnect", "instanceConnectionState", "messageSendText", "instanceDelete"),
    ),
    ("keyCreate", "201", _INSTANCE | {"key_name": "$response.body#/name"}, ("keyDelete",)),
    ("keyCreateGlobal", "201", {"key_name": "$response.body#/name"}, ("keyDeleteGlobal",)),
    ("instanceConnect", "200", _INSTANCE, ("messageSendText", "instanceLogout")),
    ("webhookSet", "201", _INSTANCE, (*_REGISTRATION, "eventEmit")),
    ("webhookSetLabelled", "201", _LABELLED, tuple(f"{name}Labelled" for name in _REGISTRATION)),
    ("eventEmit", "202", _INSTANCE, ("deliveryList", "deliveryReplay")),
    (
        "eventEmit",
        "202",
        _INSTANCE | {"id": "$response.body#/ids/0"},
        ("deliveryFind", "deliveryResend"),
    ),
)
"""An operation, the status of its response, parameters from that response, and the calls that take them."""


def links_of(operation_id: str, status: str) -> dict[str, Any]:
    """Return the links of a response."""
    return {
        target: {"operationId": target, "parameters": dict(parameters)}
        for source, source_status, parameters, targets in LINKS
        if (source, source_status) == (operation_id, status)
        for target in targets
    }
