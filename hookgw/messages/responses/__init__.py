"""Responses about messages and chats."""
