"""Shows instances as responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import UNSET

from hookgw.instances import responses
from hookgw.instances.connectors.states import Account, Closing
from hookgw.instances.fields import OPTIONS, SETTINGS
from hookgw.kernel.fields import presenter
from hookgw.kernel.masking import MASK
from hookgw.kernel.times import rfc3339
from hookgw.records.connectors import ConnectionState, QRCode
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.web import responses as common


def present_instance(
    instance: Instance, state: ConnectionState, options: dict[str, Any], *, is_new: bool = False
) -> responses.Instance:
    """Return an instance with its masked options.

    Args:
        is_new: for the response to its creation. A client of Evolution API calls an open connection
            "connected" there, and fails with any other word.
    """
    return responses.Instance(
        instance_name=instance.name,
        instance_id=instance.id,
        integration=instance.requested_integration or instance.integration or None,
        connector=instance.integration or None,
        status="connected" if is_new and state is ConnectionState.OPEN else state.value,
        created_at=rfc3339(instance.created_at),
        options=options if instance.integration else UNSET,
        tags=instance.tags,
    )


def present_listed_instance(
    instance: Instance,
    state: ConnectionState,
    options: dict[str, Any],
    close_reason: str | None,
    backlog: tuple[int, int],
    ingest_url: str | None,
    account: Account,
    closing: Closing | None,
    callers_key: str | None,
) -> responses.ListedInstance:
    """Return an instance as in a list, with its masked options, its pending deliveries and their bytes.

    ``callers_key`` is the key of a caller who has only this instance; ``None`` for others.
    """
    number, business_id = shown_number(options), options.get("businessId")
    older = responses.OlderInstance(
        **msgspec.structs.asdict(present_instance(instance, state, options)),
        name=instance.name,
        owner_jid=account.jid,
        owner=account.jid,
        profile_name=account.profile_name,
        profile_pic_url=account.profile_picture_url,
    )
    return responses.ListedInstance(
        id=instance.id,
        name=instance.name,
        connection_status=state,
        owner_jid=account.jid,
        profile_name=account.profile_name,
        profile_pic_url=account.profile_picture_url,
        # The enum of a client's type, which fails with anything else.
        integration=cast("Any", instance.requested_integration or None),
        connector=instance.integration or None,
        number=number,
        business_id=business_id if isinstance(business_id, str) and business_id != MASK else None,
        token=callers_key or MASK,
        client_name="hookgw",
        disconnection_reason_code=closing.reason if closing else None,
        disconnection_object=None,
        disconnection_at=rfc3339(closing.at) if closing else None,
        created_at=rfc3339(instance.created_at),
        updated_at=rfc3339(instance.updated_at or instance.created_at),
        tags=instance.tags,
        setting=present_settings(instance.settings),
        count=responses.Counts(),
        disconnection_reason=close_reason or UNSET,
        backlog=common.Backlog(*backlog),
        instance=older,
        ingest_url=ingest_url or UNSET,
    )


def shown_number(options: dict[str, Any]) -> str | None:
    """Return the option ``number``, if it is a text and no secret."""
    number = options.get("number")
    return number if isinstance(number, str) and number != MASK else None


_READERS = {field.name: field.reader() for field in OPTIONS}


def own_options(instance: Instance) -> dict[str, Any]:
    """Return how responses show the options of every instance."""
    return {name: read(instance, None) for name, read in _READERS.items()}


present_settings: Callable[[InstanceSettings], Any] = presenter(responses.Settings, SETTINGS)


def present_connection(
    instance: str,
    state: ConnectionState,
    close_reason: str | None,
    code: QRCode | None = None,
    ingest_url: str | None = None,
    count: int = 0,
) -> responses.Connection:
    found = responses.Connection(
        instance=responses.NamedState(instance, state, close_reason or UNSET), ingest_url=ingest_url or UNSET
    )
    if code is None:
        return found
    shown = msgspec.structs.asdict(present_code(code, count))
    return msgspec.structs.replace(found, **shown)


def present_code(code: QRCode, count: int) -> responses.Code:
    """Return a code to scan, and how many were shown so far."""
    return responses.Code(pairing_code=code.pairing_code, code=code.code, base64=code.base64, count=count)
