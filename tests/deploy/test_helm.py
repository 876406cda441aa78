"""deploy/helm/hookgw: what Helm makes of the chart, and whether hookgw understands it."""

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookgw import __version__
from tests.public.config import Settings, load_settings
from tests.support.commented_examples import uncommented

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "hookgw"
HELM = os.environ.get("HELM") or shutil.which("helm")
needs_helm = pytest.mark.skipif(
    HELM is None, reason="helm is missing (go install helm.sh/helm/v3/cmd/helm@latest)"
)
pytestmark = pytest.mark.process

DATABASE = "postgresql://hookgw:s3cret@db/hookgw"
SINGLE: dict[str, Any] = {}
FLEET: dict[str, Any] = {"fleet": {"enabled": True}, "postgresql": {"url": f"{DATABASE}\n"}}
EVERYTHING: dict[str, Any] = {
    **FLEET,
    "masterKey": base64.b64encode(bytes(32)).decode(),
    "globalKey": "the-global-key-0123",
    "config": {"server": {"public_url": "https://hooks.example"}, "delivery": {"max_age": "1d"}},
    "extraEnv": [{"name": "HOOKGW_LOG__LEVEL", "value": "debug"}],
    "imagePullSecrets": [{"name": "registry"}],
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "ingress": {"enabled": True, "host": "hooks.example", "className": "nginx", "tlsSecret": "hooks-tls"},
    "service": {"annotations": {"a": "b"}},
    "podAnnotations": {"c": "d"},
    "nodeSelector": {"e": "f"},
    "tolerations": [{"key": "g", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
VARIANTS = {"single": SINGLE, "fleet": FLEET, "everything": EVERYTHING}

# Without a cluster to ask; a helm that was built by hand takes its version for 1.20.
WITHOUT_CLUSTER = (str(CHART), "--kube-version", "1.31.0")

Objects = dict[str, dict[str, Any]]
"""By kind and name."""


def helm(tmp_path: Path, *args: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [str(HELM), *args, "--values", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=home)


def render(tmp_path: Path, values: dict[str, Any], release: str = "shop") -> Objects:
    done = helm(tmp_path, "template", release, *WITHOUT_CLUSTER, values=values)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}


def container_of(objects: Objects) -> dict[str, Any]:
    (container,) = objects["StatefulSet shop-hookgw"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def settings_of(objects: Objects, tmp_path: Path) -> Settings:
    """Return the settings of the first node: of its configuration, its variables and its Secret."""
    secret = objects.get("Secret shop-hookgw", {"data": {}})["data"]
    environ: dict[str, str] = {}
    for variable in container_of(objects)["env"]:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            value = base64.b64decode(secret[source["secretKeyRef"]["key"]]).decode()
        else:
            value = variable.get("value") or "shop-hookgw-0"
        environ[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environ[found[1]], value)
    for name, key in (("GLOBAL", "global-key"), ("MASTER", "master-key")):
        if path := environ.get(f"HOOKGW_{name}_KEY_FILE"):
            assert path == f"/run/secrets/hookgw/{key}"
            file = tmp_path / key
            file.write_bytes(base64.b64decode(secret[key]))
            environ[f"HOOKGW_{name}_KEY_FILE"] = str(file)
    config = tmp_path / "config.yaml"
    config.write_text(objects["ConfigMap shop-hookgw"]["data"]["config.yaml"], encoding="utf-8")
    return load_settings(config, environ)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == __version__


def test_every_value_is_checked_and_explained() -> None:
    text = (CHART / "values.yaml").read_text("utf-8")
    schema = yaml.safe_load((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load(text)

    def compare(values: dict[str, Any], schema: dict[str, Any]) -> None:
        known = schema.get("properties")
        if known is not None:
            assert {*values} == {*known} - {"global"}
            for name, value in values.items():
                if isinstance(value, dict):
                    compare(value, known[name])

    compare(values, schema)


def test_the_example_of_a_configuration_can_be_uncommented(tmp_path: Path) -> None:
    text = (CHART / "values.yaml").read_text("utf-8")
    found = dict(uncommented(text, yaml.safe_load(text)))
    assert [*found] == ["config"]
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(found["config"])["config"]), encoding="utf-8")
    assert load_settings(config, {}) != Settings()


@needs_helm
@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_lints_it(tmp_path: Path, variant: str) -> None:
    done = helm(tmp_path, "lint", "--strict", str(CHART), values=VARIANTS[variant])
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
def test_every_template_is_rendered(tmp_path: Path) -> None:
    done = helm(tmp_path, "template", "shop", *WITHOUT_CLUSTER, values=EVERYTHING)
    rendered = {*re.findall(r"^# Source: hookgw/templates/(.+)$", done.stdout, re.MULTILINE)}
    assert rendered == {path.name for path in (CHART / "templates").glob("*.yaml")}
    for one in yaml.safe_load_all(done.stdout):
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop"


@needs_helm
def test_a_single_node_has_a_volume(tmp_path: Path) -> None:
    objects = render(tmp_path, SINGLE)
    assert {key.split()[0] for key in objects} == {"Secret", "ConfigMap", "Service", "StatefulSet"}
    spec = objects["StatefulSet shop-hookgw"]["spec"]
    assert spec["replicas"] == 1
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    mounts = {mount["name"]: mount["mountPath"] for mount in container_of(objects)["volumeMounts"]}
    # Where the image has its data file.
    assert mounts["data"] == "/var/lib/hookgw"
    settings = settings_of(objects, tmp_path)
    assert settings.storage.engine == "sqlite"
    assert settings.server.bind == ("0.0.0.0:8080",)
    assert len(settings.auth.global_key or "") == 48


@needs_helm
def test_a_fleet_has_a_database_and_a_budget(tmp_path: Path) -> None:
    objects = render(tmp_path, FLEET)
    spec = objects["StatefulSet shop-hookgw"]["spec"]
    assert spec["replicas"] == 3
    assert "volumeClaimTemplates" not in spec
    assert objects["PodDisruptionBudget shop-hookgw"]["spec"]["maxUnavailable"] == 1
    settings = settings_of(objects, tmp_path)
    assert (settings.storage.engine, settings.storage.url) == ("postgresql", DATABASE)
    nodes = objects["Service shop-hookgw-nodes"]["spec"]
    assert (nodes["clusterIP"], nodes["publishNotReadyAddresses"]) == ("None", True)
    assert spec["serviceName"] == "shop-hookgw-nodes"
    assert (settings.fleet.node, settings.fleet.url) == (
        "shop-hookgw-0",
        "http://shop-hookgw-0.shop-hookgw-nodes:8080",
    )
    assert len(settings.fleet.secret or "") == 48


@needs_helm
def test_one_node_may_use_a_database(tmp_path: Path) -> None:
    objects = render(tmp_path, {"postgresql": {"url": DATABASE}})
    assert "volumeClaimTemplates" not in objects["StatefulSet shop-hookgw"]["spec"]
    assert settings_of(objects, tmp_path).storage.engine == "postgresql"


@needs_helm
def test_every_value_reaches_its_place(tmp_path: Path) -> None:
    objects = render(tmp_path, EVERYTHING)
    settings = settings_of(objects, tmp_path)
    assert settings.server.public_url == "https://hooks.example"
    assert settings.log.level == "debug"
    assert settings.auth.global_key == "the-global-key-0123"
    assert settings.storage.master_key == EVERYTHING["masterKey"]
    pod = objects["StatefulSet shop-hookgw"]["spec"]["template"]
    assert pod["metadata"]["annotations"]["c"] == "d"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert (pod["spec"]["nodeSelector"], pod["spec"]["affinity"]) == ({"e": "f"}, {"nodeAffinity": {}})
    monitor = objects["ServiceMonitor shop-hookgw"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "shop-hookgw", "key": "global-key"}
    # It selects the service that has every node, and that one alone.
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for key, one in objects.items() if key.startswith("Service ")]
    (chosen,) = [one for one in services if wanted <= one["metadata"]["labels"].items()]
    assert chosen["metadata"]["name"] == "shop-hookgw-nodes"
    assert endpoint["port"] in [port["name"] for port in chosen["spec"]["ports"]]
    # Without a label that says it, the job would be the name of the service, which no alert knows.
    job = chosen["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    assert f'up{{job="{job}"}}' in (ROOT / "deploy/prometheus/alerts.rules.yml").read_text("utf-8")
    ingress = objects["Ingress shop-hookgw"]["spec"]
    assert ingress["tls"] == [{"hosts": ["hooks.example"], "secretName": "hooks-tls"}]


@needs_helm
@pytest.mark.parametrize("variant", VARIANTS)
def test_services_budget_and_probes_fit_the_pods(tmp_path: Path, variant: str) -> None:
    objects = render(tmp_path, VARIANTS[variant])
    pod = objects["StatefulSet shop-hookgw"]["spec"]["template"]
    labels = pod["metadata"]["labels"].items()
    for key, one in objects.items():
        if key.startswith("Service "):
            assert one["spec"]["selector"].items() <= labels
        if key.startswith(("StatefulSet", "PodDisruptionBudget")):
            assert one["spec"]["selector"]["matchLabels"].items() <= labels
    container = container_of(objects)
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    # The promise of /readyz is an answer within 5 s.
    assert container["readinessProbe"]["timeoutSeconds"] > 5
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    claims = {
        one["metadata"]["name"]
        for one in objects["StatefulSet shop-hookgw"]["spec"].get("volumeClaimTemplates", ())
    }
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes | claims
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


@needs_helm
def test_probes_and_metrics_are_asked_below_the_base_path(tmp_path: Path) -> None:
    own = {"config": {"server": {"base_path": "/hooks"}}, "serviceMonitor": {"enabled": True}}
    objects = render(tmp_path, own)
    assert settings_of(objects, tmp_path).server.base_path == "/hooks"
    container = container_of(objects)
    assert container["startupProbe"]["httpGet"]["path"] == "/hooks/healthz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/hooks/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/hooks/readyz"
    (endpoint,) = objects["ServiceMonitor shop-hookgw"]["spec"]["endpoints"]
    assert endpoint["path"] == "/hooks/metrics"


@needs_helm
def test_a_configuration_of_comments_is_an_empty_one(tmp_path: Path) -> None:
    objects = render(tmp_path, {"config": None})
    assert settings_of(objects, tmp_path).server.base_path == ""


@needs_helm
def test_a_text_stays_one_that_reads_as_something_else(tmp_path: Path) -> None:
    own = {
        "existingSecret": "007",
        "persistence": {"size": "10", "storageClass": "1"},
        "ingress": {"enabled": True, "host": "2026", "className": "true", "tlsSecret": "12"},
        "serviceMonitor": {"enabled": True, "interval": "30"},
    }
    objects = render(tmp_path, own, release="2026")
    stateful = objects["StatefulSet 2026-hookgw"]
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "1"
    assert claim["spec"]["resources"]["requests"]["storage"] == "10"
    assert stateful["spec"]["template"]["spec"]["volumes"][1]["secret"]["secretName"] == "007"
    ingress = objects["Ingress 2026-hookgw"]["spec"]
    assert (ingress["ingressClassName"], ingress["tls"][0]["secretName"]) == ("true", "12")
    (endpoint,) = objects["ServiceMonitor 2026-hookgw"]["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["authorization"]["credentials"]["name"]) == ("30", "007")
    for one in objects.values():
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == "2026"


@needs_helm
def test_secrets_are_in_the_secret_alone(tmp_path: Path) -> None:
    secrets = {
        "globalKey": "the-global-key-0123",
        "masterKey": "the-master-key",
        "fleet": {"enabled": True, "secret": "the-fleet-secret"},
    }
    objects = render(tmp_path, {**FLEET, **secrets})
    for key, one in objects.items():
        text = yaml.safe_dump(one)
        for secret in ("the-global-key-0123", "the-master-key", "the-fleet-secret", "s3cret"):
            assert secret not in text, key
            if not key.startswith("Secret "):
                assert base64.b64encode(secret.encode()).decode().rstrip("=") not in text, key


@needs_helm
def test_a_secret_of_your_own_replaces_the_charts(tmp_path: Path) -> None:
    own = {"existingSecret": "mine", "existingSecretHasMasterKey": True, "fleet": {"enabled": True}}
    objects = render(tmp_path, own)
    assert not any(key.startswith("Secret ") for key in objects)
    environ = {one["name"]: one.get("valueFrom") for one in container_of(objects)["env"]}
    assert environ["HOOKGW_STORAGE__URL"] == {"secretKeyRef": {"name": "mine", "key": "database-url"}}
    assert "HOOKGW_MASTER_KEY_FILE" in environ
    volumes = objects["StatefulSet shop-hookgw"]["spec"]["template"]["spec"]["volumes"]
    (mounted,) = [volume["secret"] for volume in volumes if "secret" in volume]
    assert mounted["secretName"] == "mine"


@needs_helm
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"fleet": {"enabled": True}}, ["fleet.enabled needs postgresql.url"]),
        ({"fleet": {"enable": True}}, ["enable"]),
        ({"postgresql": {"url": "mysql://db"}}, ["postgresql"]),
        ({"replicas": 3}, ["replicas"]),
        ({"ingress": {"enabled": True}}, ["ingress.enabled needs ingress.host."]),
        # Helm takes an empty block for one that is to go.
        ({"fleet": None}, ["fleet"]),
        ({"postgresql": {"url": None}}, ["postgresql", "url"]),
        # What Kubernetes refuses with the name of a field of Go.
        ({"podAnnotations": {"prometheus.io/scrape": True}}, ["podAnnotations", "prometheus.io/scrape"]),
        ({"nodeSelector": {"gpu": True}}, ["nodeSelector", "gpu"]),
        ({"service": {"annotations": {"port": 8080}}}, ["service", "annotations", "port"]),
        ({"ingress": {"annotations": {"size": 0}}}, ["ingress", "annotations", "size"]),
        ({"serviceMonitor": {"labels": {"release": 1}}}, ["serviceMonitor", "labels", "release"]),
        ({"extraEnv": [{"name": "HOOKGW_LOG__LEVEL", "value": 5}]}, ["extraEnv", "0", "value"]),
    ],
)
def test_a_wrong_value_stops_the_installation(
    tmp_path: Path, values: dict[str, Any], named: list[str]
) -> None:
    """Helm names the value that is wrong; how it writes the path differs from one version to the next."""
    done = helm(tmp_path, "template", "shop", *WITHOUT_CLUSTER, values=values)
    assert done.returncode != 0
    # A JSON pointer since Helm 3.18 (/podAnnotations/prometheus.io~1scrape), names and points before.
    said = done.stderr.replace(str(CHART), "").replace("~1", "/")
    assert re.search(".*".join(map(re.escape, named)), said), said
