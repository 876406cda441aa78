"""The paths of pages below the dashboard, of which there is one for each instance, webhook or delivery."""

from __future__ import annotations

from urllib.parse import quote


def instance_path(instance: str, tab: str = "") -> str:
    return f"/instances/{quote(instance)}" + (f"/{tab}" if tab else "")


def webhook_path(instance: str, label: str) -> str:
    return f"/instances/{quote(instance)}/webhooks/{quote(label)}"


def delivery_path(instance: str, delivery_id: str) -> str:
    return f"/deliveries/{quote(instance)}/{quote(delivery_id)}"


def event_path(instance: str, event_id: str) -> str:
    return f"/events/{quote(instance)}/{quote(event_id)}"


def job_path(job_id: str) -> str:
    return f"/jobs/{quote(job_id)}"
