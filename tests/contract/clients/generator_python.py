# mypy: ignore-errors
"""Uses the Python client of openapi-generator: set, find, emit, a mistake, delete."""

import os

from openapi_client import (
    ApiClient,
    Configuration,
    EmittedEvent,
    EventsApi,
    KindName,
    Ordering,
    RegistrationRequest,
    RegistrationsApi,
)
from openapi_client.exceptions import BadRequestException

INSTANCE, URL = "of-generator-python", os.environ["HOOKGW_RECEIVER"]
client = ApiClient(Configuration(os.environ["HOOKGW_URL"], api_key={"apikey": os.environ["HOOKGW_KEY"]}))
api = RegistrationsApi(client)

wanted = RegistrationRequest(
    url=URL, events=[KindName.MESSAGES_UPSERT], webhook_base64=True, ordering=Ordering.CHAT
)
stored = api.webhook_set(INSTANCE, wanted)
assert (stored.url, stored.events, stored.webhook_base64) == (URL, ["MESSAGES_UPSERT"], True)
assert stored.created_at.tzinfo is not None

found = api.webhook_find(INSTANCE)
assert (found.id, found.ordering, found.timeout) == (stored.id, Ordering.CHAT, None)

event = EmittedEvent(event=KindName.MESSAGES_UPSERT, data={"key": {"id": "1"}})
assert EventsApi(client).event_emit(INSTANCE, [event, event]).accepted == 2

try:
    api.webhook_set(INSTANCE, RegistrationRequest(url="http://"))
except BadRequestException as error:
    messages = error.data.response.message
else:
    messages = []
assert messages
assert messages[0].startswith("url: ")

assert api.webhook_delete(INSTANCE).status == "SUCCESS"
assert api.webhook_find(INSTANCE) is None
