"""What is inside a ``message``: its layers, and its file. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST_PART = 64 * 1024
"""A larger part of a message is not read."""
FILE_TYPES = (
    "imageMessage",
    "videoMessage",
    "audioMessage",
    "documentMessage",
    "stickerMessage",
    "ptvMessage",
)
WRAPPERS = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
    "associatedChildMessage",
    "groupMentionedMessage",
    "groupStatusMessage",
    "groupStatusMessageV2",
    "botInvokeMessage",
    "lottieStickerMessage",
    "eventCoverImage",
    "pollCreationOptionImageMessage",
    "pollCreationMessageV4",
    "questionMessage",
    "questionReplyMessage",
    "statusAddYours",
    "statusMentionMessage",
    "groupStatusMentionMessage",
    "spoilerMessage",
    "limitSharingMessage",
    "newsletterAdminProfileMessage",
    "newsletterAdminProfileStatusMessage",
    "botTaskMessage",
    "botForwardedMessage",
    "botPlatformRegistrationSuccessMessage",
    "commentMessage",
    "deviceSentMessage",
    "editedMessage",
)
"""Their content is a whole ``message`` again."""
_HOLDERS = (
    "templateMessage",
    "highlyStructuredMessage",
    "hydratedHsm",
    "hydratedTemplate",
    "hydratedFourRowTemplate",
    "interactiveMessageTemplate",
    "buttonsMessage",
    "interactiveMessage",
    "header",
)
"""Their content may have a file above its words: templates of businesses, and what has buttons."""
MESSAGE_NAMES = (*FILE_TYPES, *WRAPPERS, *_HOLDERS)
"""The members of a message that :func:`layers` and :func:`unwrapped` read."""


def layers(message: Any) -> Iterator[dict[str, Any]]:
    """Yield a message, and what is inside it: its files and its words are in one of them."""
    for _ in range(len(WRAPPERS)):
        if not isinstance(message, dict):
            return
        yield message
        inside = (name for name in (*WRAPPERS, *_HOLDERS) if isinstance(message.get(name), dict))
        if (name := next(inside, None)) is None:
            return
        message = message[name].get("message") if name in WRAPPERS else message[name]


def unwrapped(message: Any) -> tuple[str | None, dict[str, Any]]:
    """Return the kind of file in a message and what the message says of it; ``None`` if it has no file."""
    found = ((name, layer[name]) for layer in layers(message) for name in FILE_TYPES if name in layer)
    return next(((name, file) for name, file in found if isinstance(file, dict)), (None, {}))
