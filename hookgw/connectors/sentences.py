"""Sentences of errors that several connectors say. No I/O."""

from __future__ import annotations

from hookgw.kernel.sentences import Sentence

EMPTY_TEXT = Sentence("message.text_empty", "text must not be empty.")
"""The text of a message is empty."""
PRESENCE_WITHOUT_CHAT = Sentence.declared(
    "presence.without_chat", "presence: {presence} is shown in a chat; say in which with number."
)
"""A presence that needs a chat was sent without one; takes ``presence``."""
BODY_REFUSED = Sentence.declared("ingest.body_refused", "The body {reason}.")
"""The body of a network's request cannot be read; takes ``reason``."""
BODY_NOT_OBJECT = Sentence("ingest.body_not_object", "The body is not a JSON object.")
"""The body of a network's request is JSON, and no object."""
