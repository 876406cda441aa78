"""Shows records and results as responses."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from hookgw.records.jobs import Job
from hookgw.web import responses

_R = TypeVar("_R", bound=Struct)


def shown(response: type[_R], record: object, **others: Any) -> _R:
    """Return a response that has the fields of a record under their names, except for the ``others``.

    It takes twice as long as a call with all fields: long lists of deliveries name them.
    """
    names = response.__struct_fields__
    return response(**{name: getattr(record, name) for name in names if name not in others}, **others)


def present_done(message: str) -> responses.Done:
    return responses.Done("SUCCESS", False, responses.DoneMessage(message))


def present_started(job: Job, message: str) -> responses.Started:
    """Return the response of a call that deletes something, while a job still works on it."""
    return responses.Started("PENDING", False, responses.DoneMessage(message), job.id)
