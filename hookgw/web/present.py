"""Shows times and results."""

from __future__ import annotations

from hookgw.records.jobs import Job
from hookgw.web import responses


def present_done(message: str) -> responses.Done:
    return responses.Done("SUCCESS", False, responses.DoneMessage(message))


def present_started(job: Job, message: str) -> responses.Started:
    """Return the response of a call that deletes something, while a job still works on it."""
    return responses.Started("PENDING", False, responses.DoneMessage(message), job.id)
