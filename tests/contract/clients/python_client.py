# mypy: ignore-errors
"""Uses the client of openapi-python-client: set, find, emit, a mistake, delete."""

import os

from hookgw_client import AuthenticatedClient
from hookgw_client.api.events import event_emit
from hookgw_client.api.registrations import webhook_delete, webhook_find, webhook_set
from hookgw_client.models import (
    ApiError,
    Done,
    Emitted,
    EmittedEvent,
    KindName,
    Ordering,
    Registration,
    RegistrationRequest,
)

INSTANCE, URL = "of-python", os.environ["HOOKGW_RECEIVER"]
client = AuthenticatedClient(os.environ["HOOKGW_URL"], token=os.environ["HOOKGW_KEY"])

wanted = RegistrationRequest(
    url=URL, events=[KindName.MESSAGES_UPSERT], webhook_base_64=True, ordering=Ordering.CHAT
)
stored = webhook_set.sync(INSTANCE, client=client, body=wanted)
assert isinstance(stored, Registration), stored
assert (stored.url, stored.events, stored.webhook_base_64) == (URL, ["MESSAGES_UPSERT"], True)
assert stored.created_at.tzinfo is not None

found = webhook_find.sync(INSTANCE, client=client)
assert isinstance(found, Registration), found
assert (found.id, found.ordering, found.timeout) == (stored.id, Ordering.CHAT, None)

event = EmittedEvent(event=KindName.MESSAGES_UPSERT, data={"key": {"id": "1"}})
emitted = event_emit.sync(INSTANCE, client=client, body=[event, event])
assert isinstance(emitted, Emitted), emitted
assert emitted.accepted == 2

wrong = webhook_set.sync(INSTANCE, client=client, body=RegistrationRequest(url="ftp://x"))
assert isinstance(wrong, ApiError), wrong
assert wrong.status == 400
assert wrong.response.message[0].startswith("url: ")

assert isinstance(webhook_delete.sync(INSTANCE, client=client), Done)
assert webhook_find.sync(INSTANCE, client=client) is None
