"""Words of tables in the reader's language: headings, and states in cells. JSON has the English ones."""

from __future__ import annotations

from hookgw.kernel.language import ENGLISH, N_, current_language, translated

HEADINGS = frozenset(
    {
        *(N_("accepted"), N_("account"), N_("accounts"), N_("action"), N_("age"), N_("answer"), N_("at")),
        *(N_("attempt"), N_("attempts"), N_("backlog"), N_("by"), N_("by events"), N_("bytes"), N_("calls")),
        *(N_("can"), N_("check"), N_("created"), N_("created with"), N_("data"), N_("day"), N_("dead")),
        *(N_("default"), N_("delivered"), N_("deliveries"), N_("delivery"), N_("done"), N_("duration")),
        *(N_("enabled"), N_("error"), N_("event"), N_("events"), N_("expires"), N_("failed"), N_("file")),
        *(N_("finished"), N_("found"), N_("from"), N_("happened"), N_("head"), N_("heartbeat")),
        *(N_("held back"), N_("hooks"), N_("id"), N_("ingest URL"), N_("instance"), N_("integration")),
        *(N_("integrations"), N_("key"), N_("kind"), N_("kinds"), N_("label"), N_("last")),
        *(N_("last outcome"), N_("loss"), N_("meaning"), N_("ms"), N_("muted until"), N_("name")),
        *(N_("next attempt"), N_("node"), N_("number"), N_("oldest"), N_("on"), N_("option"), N_("options")),
        *(N_("outcome"), N_("p50"), N_("p95"), N_("p99"), N_("pairing code"), N_("part"), N_("partition")),
        *(N_("pending"), N_("problem"), N_("problems"), N_("profile"), N_("QR code (text)"), N_("reach")),
        *(N_("reason"), N_("receiver"), N_("response"), N_("retry at"), N_("rows"), N_("schema")),
        *(N_("sender"), N_("shards"), N_("since"), N_("size"), N_("source"), N_("started"), N_("state")),
        *(N_("status"), N_("subject"), N_("tags"), N_("this key"), N_("updated"), N_("URL"), N_("version")),
        *(N_("webhooks"), N_("what"), N_("which"), N_("who"), N_("whole p95")),
    }
)
_WITH_STATES = frozenset({"state", "status", "outcome", "last outcome", "loss"})
"""The headings of columns whose cells are words, not somebody's data."""
_WITH_SENTENCES = frozenset({"error", "found", "last outcome", "problem", "reason"})
"""Those of columns whose cells are sentences of the gateway."""


def heading_text(heading: str) -> str:
    return translated(heading) if heading in HEADINGS else heading


def cell_text(heading: str, cell: str) -> str:
    text = translated(cell) if heading in _WITH_STATES else cell
    return told(text) if heading in _WITH_SENTENCES else text


def told(text: str) -> str:
    """Return sentences that the gateway has sent in English, in the reader's language."""
    if current_language() == ENGLISH:
        return text
    from hookgw.records.told_sentences import sentence_text  # with msgspec: few commands need it

    return sentence_text(text)
