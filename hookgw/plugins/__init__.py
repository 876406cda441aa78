"""Finds, loads and calls plugins."""
