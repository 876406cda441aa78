"""Dockerfile and compose.yaml: read here, because no image can be built in a test."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.public.command import COMMANDS
from tests.public.config import load_settings
from tests.support.compose import ComposeRefused, interpolate, receivers_beside_hookgw, services_of

ROOT = Path(__file__).parents[2]
KEYS = {"HOOKGW_GLOBAL_KEY": "g" * 16, "WAHA_API_KEY": "1" * 16, "GRAFANA_PASSWORD": "p" * 16}
COMPOSE = interpolate(yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8")), KEYS)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def stages() -> list[list[tuple[str, str]]]:
    """The stages of the Dockerfile, each as its instructions with their arguments."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, text.splitlines()):
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, " ".join(argument.split())))
    return found


BUILD, FINAL = stages()
LAST = dict(FINAL)  # of instructions that come several times, the last one counts


def environment() -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in shlex.split(LAST["ENV"]))


def test_the_image_runs_as_a_user_without_rights() -> None:
    assert [name for name, _ in FINAL].index("USER") < [name for name, _ in FINAL].index("ENTRYPOINT")
    user, _, group = LAST["USER"].partition(":")
    # A number: Kubernetes can check that it is not root.
    assert int(user) > 0
    assert int(group) > 0


def test_the_build_gets_what_it_copies() -> None:
    """Each source exists, .dockerignore lets it through, and no more than these gets into the image."""
    let_through = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE))
    sources = {word for name, argument in BUILD if name == "COPY" for word in argument.split()[:-1]}
    assert sources == let_through
    assert all((ROOT / source).exists() for source in sources)


def test_the_settings_of_the_image_are_hookgws() -> None:
    variables = {name: value for name, value in environment().items() if name.startswith("HOOKGW_")}
    settings = load_settings(None, variables)
    assert settings.server.bind == ("0.0.0.0:8080",)
    assert settings.storage.path == f"{LAST['VOLUME']}/hookgw.db"
    assert LAST["EXPOSE"] == "8080"


def test_the_image_checks_its_health_with_hookgw() -> None:
    """The image has no curl."""
    options, _, command = LAST["HEALTHCHECK"].partition(" CMD ")
    assert {option.partition("=")[0] for option in options.split()} == {
        *("--interval", "--timeout", "--start-period", "--retries")
    }
    program, name = json.loads(command)
    assert [program] == json.loads(LAST["ENTRYPOINT"])
    assert name in COMMANDS
    assert json.loads(LAST["CMD"])[0] in COMMANDS


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_read_only_root_and_no_capabilities(name: str) -> None:
    service = SERVICES[name]
    # Compose copies a secret from the environment into the container, and refuses if it cannot.
    assert service.get("read_only", False) is not bool(service.get("secrets"))
    # Which capabilities WAHA's image needs is not documented.
    assert service.get("cap_drop") == (None if name == "waha" else ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    # Versions are pinned, except of what is built here.
    assert re.search(r"[:-]v?\d+\.\d+\.\d+$", service["image"]) or "build" in service


@pytest.mark.parametrize("name", SERVICES)
def test_every_mount_exists(name: str) -> None:
    for mount in SERVICES[name]["volumes"]:
        source = mount.split(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    assert set(SERVICES[name].get("depends_on", ())) <= SERVICES.keys()


def test_the_parts_find_each_other() -> None:
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    [job] = prometheus["scrape_configs"]
    host, _, port = job["static_configs"][0]["targets"][0].partition(":")
    assert host in SERVICES
    assert port == LAST["EXPOSE"]
    [secret] = SERVICES["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    mounted = {mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]}
    assert set(prometheus["rule_files"]) < mounted
    provisioning = ROOT / "deploy/grafana/provisioning"
    [source] = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((provisioning / "dashboards/hookgw.yml").read_text("utf-8"))["providers"]
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]


@pytest.mark.parametrize(
    ("profiles", "started", "keys"),
    [
        ([], {"hookgw"}, {"HOOKGW_GLOBAL_KEY"}),
        (["whatsapp"], {"hookgw", "waha"}, {"HOOKGW_GLOBAL_KEY", "WAHA_API_KEY"}),
        (
            ["monitoring"],
            {"hookgw", "prometheus", "grafana"},
            {"HOOKGW_GLOBAL_KEY", "GRAFANA_PASSWORD"},
        ),
    ],
)
def test_a_profile_asks_for_what_it_uses_alone(
    profiles: list[str], started: set[str], keys: set[str]
) -> None:
    given = {name: KEYS[name] for name in keys}
    assert services_of(ROOT / "compose.yaml", given, profiles).keys() == started
    for name in keys:
        with pytest.raises(ComposeRefused, match=name):
            services_of(ROOT / "compose.yaml", {one: KEYS[one] for one in keys - {name}}, profiles)


def test_the_settings_of_the_compose_file_are_hookgws() -> None:
    for profiles in ([], ["whatsapp"]):
        service = services_of(ROOT / "compose.yaml", KEYS, profiles)["hookgw"]
        settings = load_settings(None, service["environment"])
        assert settings.auth.global_key == KEYS["HOOKGW_GLOBAL_KEY"]
        # A text, although it consists of digits.
        assert settings.plugins.options["waha"]["api_key"] == KEYS["WAHA_API_KEY"]
    assert settings.server.public_url == "http://hookgw:8080"
    # As the comment says.
    settings = load_settings(None, {**service["environment"], **receivers_beside_hookgw()})
    assert settings.delivery.allow_networks == ("172.16.0.0/12",)


def test_waha_publishes_no_port() -> None:
    waha = services_of(ROOT / "compose.yaml", KEYS, ["whatsapp"])["waha"]
    assert not waha.keys() & {"ports", "network_mode"}
    assert waha["environment"]["WAHA_API_KEY"] == KEYS["WAHA_API_KEY"]


def has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_compose(), reason="`docker compose` is missing")
def test_compose_accepts_the_file() -> None:
    done = subprocess.run(
        ["docker", "compose", "config", "--quiet"],
        cwd=ROOT,
        env={**os.environ, **KEYS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
