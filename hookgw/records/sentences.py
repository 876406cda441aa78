"""Sentences of errors that several slices, or several of their modules, say. No I/O."""

from __future__ import annotations

from hookgw.kernel.sentences import Sentence

NO_FILE = Sentence.declared("storage.no_file", "There is no file {path}.")
SHUTTING_DOWN = Sentence("gateway.shutting_down", "hookgw is shutting down.")
INSTANCE_ELSEWHERE = Sentence(
    "fleet.instance_elsewhere_now", "The instance is on another node by now. Retry."
)
NO_INSTANCE = Sentence.declared("instance.not_found", "The instance {name!r} does not exist.")
INSTANCE_DELETED = Sentence.declared("instance.deleted", "The instance {name!r} was deleted.")
THE_INSTANCE_DELETED = Sentence("instance.deleted_meanwhile", "The instance was deleted.")
NO_WEBHOOK = Sentence.declared("webhook.not_found", "The instance {instance!r} has no webhook {label!r}.")
DONE_OF = Sentence.declared("problem.partly_done", "{done:,} of {count:,} are done.")
DELIVERYS_WEBHOOK_DISABLED = Sentence(
    "delivery.webhook_disabled",
    "The registration of this delivery is disabled: enable it first (set enabled to true).",
)
DELIVERYS_WEBHOOK_DELETED = Sentence(
    "delivery.webhook_deleted",
    "The registration of this delivery was deleted, so there is nowhere to send it.",
)
ERASURE_UNDER_WAY = Sentence.declared(
    "erasure.under_way",
    "An erasure of {instance!r} is under way ({id}); try again when it has ended.",
)
OPERATIONAL_KIND = Sentence.declared(
    "event.operational_kind", "{kind} is an operational event, which only hookgw raises."
)
CURSOR_OF_PAGE = Sentence(
    "cursor.not_of_previous_page",
    "cursor must be that of the previous page; leave it out for the first page.",
)
CURSOR_OF_STEP = Sentence("cursor.not_of_step_before", "cursor must be the cursor of the step before.")
NOT_STORABLE = Sentence.declared(
    "event.not_storable", "An event holds a value that cannot be stored: {error}."
)
BODY_REFUSED = Sentence.declared("body.refused", "The body {reason}.")
BODY_TOO_LONG = Sentence.declared("body.too_long", "The body may have at most {limit}.")
TOO_MANY_LIVE_PAGES = Sentence("page.too_many_streams", "Too many pages with live updates are open.")
NO_PAGE = Sentence.declared("page.not_found", "There is no page {name!r}.")
