"""Sentences of errors that several connectors say. No I/O."""

from __future__ import annotations

from hookgw.kernel.sentences import Sentence

EMPTY_TEXT = Sentence("message.text_empty", "text must not be empty.")
"""The text of a message is empty."""
PRESENCE_WITHOUT_CHAT = Sentence.declared(
    "presence.without_chat", "presence: {presence} is shown in a chat; say in which with number."
)
"""A presence that needs a chat was sent without one; takes ``presence``."""
