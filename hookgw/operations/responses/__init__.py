"""Responses to operators."""
