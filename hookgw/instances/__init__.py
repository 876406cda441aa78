"""Instances: their records, connectors and states."""
