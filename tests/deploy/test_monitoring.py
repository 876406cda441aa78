"""Prometheus' rules and Grafana's dashboard use metrics that exist, and the alerts have runbooks."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.public.core import Metrics
from tests.public.delivery import PoolStatistics
from tests.public.store import DiskSpace

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.rules.yml"))
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "hookgw.json").read_text("utf-8"))
# Prometheus makes it for each target.
OF_PROMETHEUS = {"up"}
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is missing (Debian: package prometheus)"
)


def rules() -> Iterator[dict[str, Any]]:
    for file in RULES:
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            yield from group["rules"]


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield from (panel, *panel.get("panels", ()))


ALERTS = [rule for rule in rules() if "alert" in rule]
QUERIES = [
    *((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()),
    *((panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", ())),
    *((name["name"], name["query"]["query"]) for name in DASHBOARD["templating"]["list"][1:]),
]


@pytest.fixture(scope="module")
def series() -> set[str]:
    """The names of all series that a scrape can have, with those that the rules record."""
    metrics = Metrics()
    metrics.watch_disk(lambda: DiskSpace(free=1, reusable=1))
    metrics.watch_pools(lambda _: PoolStatistics(0, 0, 0, 0, []), lambda: 0)
    text = metrics.render()[0].decode()
    names = {rule["record"] for rule in rules() if "record" in rule} | OF_PROMETHEUS
    for family in text_string_to_metric_families(text):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        names |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return names


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_every_metric_in_use_exists(title: str, query: str, series: set[str]) -> None:
    used = re.findall(r"\b(?:hookgw[_:][a-z0-9_:]+|process_[a-z_]+|up)\b", re.sub(r'"[^"]*"', '""', query))
    assert used
    assert set(used) <= series, title


def test_the_page_has_every_metric(series: set[str]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page.partition("## Metrics\n")[2].partition("\n## ")[0]
    names = {re.sub("_(bucket|sum|count)$", "", name) for name in series if name.startswith("hookgw_")}
    assert names - {*re.findall(r"`(hookgw_\w+)", table)} == set()


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_every_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    operations = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert f"\n### {name}\n" in operations
    assert alert["annotations"]["runbook_url"] == f"docs/operations.md#{name.lower()}"
    assert alert["labels"]["severity"] in ("warning", "critical")


def test_every_runbook_has_an_alert() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert re.findall(r"^### (Hookgw\w+)$", operations, re.MULTILINE) == [alert["alert"] for alert in ALERTS]


def test_every_alert_is_tested() -> None:
    tests = (ROOT / "tests" / "deploy" / "alerts.test.yml").read_text("utf-8")
    assert {alert["alert"] for alert in ALERTS} == set(re.findall(r'alertname="(Hookgw\w+)"', tests))


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "--lint-fatal", *RULES],
        ["check", "config", "--syntax-only", ROOT / "deploy" / "prometheus" / "prometheus.yml"],
        ["test", "rules", ROOT / "tests" / "deploy" / "alerts.test.yml"],
    ],
    ids=["check rules", "check config", "test rules"],
)
def test_promtool_finds_nothing(arguments: list[str | Path]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(list(panels()))
