"""What an instance key may not see of deliveries to webhooks of the configuration.

Those webhooks belong to the operator. A tenant must not learn how their receivers respond, or how hookgw
reaches them.
"""

from __future__ import annotations

import msgspec

from hookgw.models.deliveries import Attempt
from hookgw.models.registrations import is_global
from hookgw.store import DeliveryReport, DeliverySummary

REDACTED = "Only a global key sees the responses to a webhook of the configuration."


def redact(summary: DeliverySummary) -> DeliverySummary:
    """Return a delivery as an instance key may see it."""
    if not is_global(summary.registration):
        return summary
    return msgspec.structs.replace(
        summary,
        reason=summary.reason and REDACTED,  # its last error, in the receiver's words
        last_attempt=summary.last_attempt and _redact_attempt(summary.last_attempt),
    )


def redact_report(report: DeliveryReport) -> DeliveryReport:
    """Return a report as an instance key may see it."""
    if not is_global(report.summary.registration):
        return report
    attempts = tuple(_redact_attempt(attempt) for attempt in report.attempts)
    return msgspec.structs.replace(report, summary=redact(report.summary), attempts=attempts)


def _redact_attempt(attempt: Attempt) -> Attempt:
    # The outcome stays: a tenant may know whether the event arrived, not what the receiver said.
    return msgspec.structs.replace(attempt, status=None, error=attempt.error and REDACTED, answer="")
