"""The sentences that a page shows after a form has changed something.

The redirect after a form carries the name of a notice, never its text: a link must not be able to make the
dashboard say anything else.
"""

from __future__ import annotations

from hookgw.kernel.language import N_

NOTICES = {
    "logged_out": N_("You are logged out."),
    "saved": N_("Saved."),
    "connecting": N_("The connector is running."),
    "ended": N_("The connection is ended."),
    "deleted": N_("Deleted. Pending deliveries became dead letters."),
    "deleting": N_("The deletion has begun: pending deliveries become dead letters."),
    "emitted": N_("The example event is accepted."),
    "sent": N_("The message is sent."),
    "revoked": N_("The key is revoked. Its sessions have ended."),
    "paused": N_("Paused: deliveries wait, in order, until you resume."),
    "resumed": N_("Resumed: waiting deliveries are tried now."),
    "cancelled": N_("The pending deliveries are dead letters now. Replay sends them after all."),
    "cancelling": N_("The pending deliveries are becoming dead letters. That takes a while."),
    "skipped": N_("The delivery is a dead letter now, and its lane goes on. Replay sends it after all."),
    "enabled": N_("Enabled."),
    "backfilled": N_("What it missed is on its way, before anything newer."),
    "backfilling": N_("What it missed is sent, before anything newer. This page says how far it is."),
    "backfilling_all": N_(
        "Enabled. What they missed since is sent, before anything newer. What was pending when they were "
        "disabled is among the dead letters: Deliveries sends it again."
    ),
    "muted": N_("Muted until then. The audit has the reason."),
    "unmuted": N_("Shown again."),
    "backfill_ended": N_("The backfill has ended."),
    "disabled": N_("Disabled. Pending deliveries became dead letters."),
    "resent": N_("The delivery is pending again."),
    "job_paused": N_("The job pauses after its present step, until it is resumed."),
    "job_resumed": N_("The job goes on."),
    "job_cancelled": N_("The job ends. What it has done stays."),
    "replayed": N_("The replay has begun."),
}
