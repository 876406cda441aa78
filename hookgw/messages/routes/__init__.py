"""Routes of messages, chats and files."""
