"""The sentences that a page shows after a form has changed something.

The redirect after a form carries the name of a notice, never its text: a link must not be able to make the
dashboard say anything else.
"""

from __future__ import annotations

NOTICES = {
    "logged_out": "You are logged out.",
    "saved": "Saved.",
    "connecting": "The connector is running.",
    "ended": "The connection is ended.",
    "deleted": "Deleted. Pending deliveries became dead letters.",
    "deleting": "The deletion has begun: pending deliveries become dead letters.",
    "emitted": "The example event is accepted.",
    "sent": "The message is sent.",
    "revoked": "The key is revoked. Its sessions have ended.",
    "paused": "Paused: deliveries wait, in order, until you resume.",
    "resumed": "Resumed: waiting deliveries are tried now.",
    "cancelled": "The pending deliveries are dead letters now. Replay sends them after all.",
    "cancelling": "The pending deliveries are becoming dead letters. That takes a while.",
    "skipped": "The delivery is a dead letter now, and its lane goes on. Replay sends it after all.",
    "enabled": "Enabled.",
    "backfilled": "What it missed is on its way, before anything newer.",
    "backfilling": "What it missed is sent, before anything newer. This page says how far it is.",
    "backfilling_all": "Enabled. What they missed is sent, before anything newer.",
    "muted": "Muted until then. The audit has the reason.",
    "unmuted": "Shown again.",
    "backfill_ended": "The backfill has ended.",
    "disabled": "Disabled. Pending deliveries became dead letters.",
    "resent": "The delivery is pending again.",
    "job_paused": "The job pauses after its present step, until it is resumed.",
    "job_resumed": "The job goes on.",
    "job_cancelled": "The job ends. What it has done stays.",
    "replayed": "The replay has begun.",
}
