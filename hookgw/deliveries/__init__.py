"""Deliveries: lists, replay, cancellation, lanes."""
