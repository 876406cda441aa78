"""What Docker Compose makes of compose.yaml: variables, profiles, secrets. No container runtime is needed."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

_REFERENCE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<operator>:[-?])(?P<rest>[^}]*))?\})")
_LINE = re.compile(r"""(?:export\s+)?(\w+)=(?:"(.*)"|'(.*)'|(.*?))\s*""")


class ComposeRefused(Exception):
    """Compose would not start the services."""


def read_env(file: Path) -> dict[str, str]:
    """Return the variables of a file ``.env``; the last line of a name counts."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = [_LINE.fullmatch(line) for line in lines if line.strip() and not line.startswith("#")]
    return {one[1]: one[2] or one[3] or one[4] or "" for one in found if one is not None}


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` in all texts of a value."""
    if isinstance(value, dict):
        return {name: interpolate(one, variables) for name, one in value.items()}
    if isinstance(value, list):
        return [interpolate(one, variables) for one in value]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = variables.get(match["name"], "")
        if not found and match["operator"] == ":?":
            raise ComposeRefused(f"{match['name']}: {match['rest']}")
        return found or (match["rest"] if match["operator"] == ":-" else "")

    return _REFERENCE.sub(replaced, value)


def services_of(
    file: Path, variables: Mapping[str, str], profiles: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the services that ``docker compose --profile … up`` starts, with all their values.

    Raises:
        ComposeRefused: a variable is missing: in any service, because Compose interpolates the whole file,
            or for a secret of a service that is started.
    """
    document = interpolate(yaml.safe_load(file.read_text("utf-8")), variables)
    started = {
        name: service
        for name, service in document["services"].items()
        if not service.get("profiles") or set(service["profiles"]) & set(profiles)
    }
    for name, service in started.items():
        missing = set(service.get("depends_on", ())) - started.keys()
        if missing:
            raise ComposeRefused(f"{name} depends on {missing}, which no profile in use has")
        for secret in service.get("secrets", ()):
            variable = document["secrets"][secret]["environment"]
            if variable not in variables:
                raise ComposeRefused(
                    f"environment variable {variable} required by secret {secret} is not set"
                )
    return started


def receivers_beside_hookgw(file: Path = Path(__file__).parents[2] / "compose.yaml") -> dict[str, str]:
    """Return the variable in a comment, which allows receivers in the network of the containers."""
    [(name, value)] = re.findall(r"^\s+# (HOOKGW_\w+): (.+)$", file.read_text("utf-8"), re.MULTILINE)
    return {name: yaml.safe_load(value)}
