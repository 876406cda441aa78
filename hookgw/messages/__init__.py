"""Messages that connectors send, chats, and files that came in."""
