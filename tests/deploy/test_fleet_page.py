"""docs/fleet.md: its files for compose and Kubernetes, and its table of scale, as its formulas say."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.public.config import Settings, load_settings
from tests.public.kernel import parse_size

PAGE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
BLOCKS = [
    list(yaml.safe_load_all(block))
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]
COMPOSE: dict[str, Any] = next(block[0] for block in BLOCKS if "services" in block[0])
MANIFESTS: dict[str, dict[str, Any]] = {
    f"{one['kind']} {one['metadata']['name']}": one for block in BLOCKS for one in block if "kind" in one
}
NODES = {name: service for name, service in COMPOSE["services"].items() if name != "db"}
POD: dict[str, Any] = MANIFESTS["StatefulSet hookgw"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def settings_of(environment: dict[str, str]) -> Settings:
    return load_settings(None, environment)


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_compose(name: str) -> None:
    settings = settings_of(NODES[name]["environment"])
    assert settings.storage.engine == "postgresql"
    assert settings.fleet.node == name
    assert settings.fleet.url == f"http://{name}:8080"
    assert settings.server.bind == ("0.0.0.0:8080",)
    assert settings.fleet.secret == settings_of(NODES["a"]["environment"]).fleet.secret
    database = COMPOSE["services"]["db"]["environment"]
    user, password = database["POSTGRES_USER"], database["POSTGRES_PASSWORD"]
    assert settings.storage.url == f"postgresql://{user}:{password}@db/{database['POSTGRES_DB']}"


def test_the_services_of_compose_are_there_and_have_ports_of_their_own() -> None:
    published = [port for node in NODES.values() for port in node["ports"]]
    assert len(set(published)) == len(NODES)
    assert all(port.endswith(":8080") for port in published)
    assert all(set(node["depends_on"]) <= set(COMPOSE["services"]) for node in NODES.values())
    volumes = [volume.partition(":")[0] for volume in COMPOSE["services"]["db"]["volumes"]]
    assert set(volumes) == set(COMPOSE["volumes"])


def test_a_pod() -> None:
    """Its variables are settings, with the name and address that the headless service gives a pod."""
    given: dict[str, str] = {}
    for variable in CONTAINER["env"]:
        value = variable.get("value")
        if value is None and "fieldRef" in variable["valueFrom"]:
            assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
            value = "hookgw-0"
        elif value is None:
            secret = variable["valueFrom"]["secretKeyRef"]
            assert secret["name"] == "hookgw"
            value = "postgresql://hookgw:x@db/hookgw" if "url" in secret["key"] else "s" * 32
        given[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda name: given[name[1]], value)
    settings = settings_of(given)
    headless = MANIFESTS["StatefulSet hookgw"]["spec"]["serviceName"]
    assert settings.fleet.node == "hookgw-0"
    assert settings.fleet.url == f"http://hookgw-0.{headless}:8080"
    assert MANIFESTS[f"Service {headless}"]["spec"]["clusterIP"] == "None"
    # A node is called by others before it is ready.
    assert MANIFESTS[f"Service {headless}"]["spec"]["publishNotReadyAddresses"] is True


def test_the_services_of_kubernetes_lead_to_the_pods() -> None:
    labels = MANIFESTS["StatefulSet hookgw"]["spec"]["template"]["metadata"]["labels"]
    assert MANIFESTS["StatefulSet hookgw"]["spec"]["selector"]["matchLabels"] == labels
    (port,) = [port["containerPort"] for port in CONTAINER["ports"]]
    for name in ("Service hookgw", "Service hookgw-nodes"):
        spec = MANIFESTS[name]["spec"]
        assert spec["selector"] == labels
        assert [one.get("targetPort", one["port"]) for one in spec["ports"]] == [port]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] == port


def test_a_pod_has_time_to_hand_over() -> None:
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = Settings().server.shutdown_grace
    # A node is gone within its grace and 10 s.
    assert POD["terminationGracePeriodSeconds"] >= pause + grace + 10
    # While the database is away, readiness is told within 5 s.
    assert CONTAINER["readinessProbe"]["timeoutSeconds"] > 5


def rows() -> list[list[str]]:
    table = PAGE.split("| events/s | payload |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: "-".join(row[:4]))
def test_the_table_of_scale_is_what_the_formulas_say(row: list[str]) -> None:
    events, registrations, nodes = (int(row[place].replace(",", "")) for place in (0, 2, 3))
    payload = parse_size(row[1])
    deliveries = events * registrations
    cores = 0.0005 * events + 0.0002 * deliveries
    database = 0.0001 * events + 0.0001 * deliveries
    log = events * (350 + 1.1 * payload + 1_900 * registrations)
    history = events * 3 * 86_400 * (650 + 1.4 * payload + 950 * registrations)
    assert row[4:] == [
        f"{deliveries:,}",
        f"{cores:.2g}",
        f"{database:.2g}",
        f"{log / 1e6:.2g} MB/s",
        f"{history / 1e9:,.0f} GB",
        f"{8 * nodes}",
    ]
    # No node has more to do than one process can, and a bit is left for the loss of one.
    assert nodes - 1 >= math.ceil(cores / 0.8)
