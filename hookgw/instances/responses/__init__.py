"""Responses about instances."""
