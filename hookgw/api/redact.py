"""What an instance key does not see of deliveries to webhooks of the configuration.

Those are the operator's: what their receiver answers, and how it is reached, is none of a tenant's business.
"""

from __future__ import annotations

import msgspec

from hookgw.models.deliveries import Attempt
from hookgw.models.registrations import is_global
from hookgw.store import DeliveryReport, DeliverySummary

WITHHELD = "Only a global key sees how a webhook of the configuration answers."


def redact(summary: DeliverySummary) -> DeliverySummary:
    """A delivery as an instance key sees it: as it is, unless it goes to a webhook of the configuration."""
    if not is_global(summary.registration):
        return summary
    return msgspec.structs.replace(
        summary,
        reason=summary.reason and WITHHELD,
        last_attempt=summary.last_attempt and _without_answer(summary.last_attempt),
    )


def redact_report(report: DeliveryReport) -> DeliveryReport:
    """The same for a delivery with all of its attempts."""
    if not is_global(report.summary.registration):
        return report
    attempts = tuple(_without_answer(attempt) for attempt in report.attempts)
    return msgspec.structs.replace(report, summary=redact(report.summary), attempts=attempts)


def _without_answer(attempt: Attempt) -> Attempt:
    return msgspec.structs.replace(attempt, status=None, error=attempt.error and WITHHELD, answer="")
