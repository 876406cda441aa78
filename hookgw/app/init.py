"""``hookgw init``: what a folder needs before its containers are started."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import click
import yaml

from hookgw.app.installed import installed_from
from hookgw.command.failure import Failed
from hookgw.command.group import CommandGroup
from hookgw.command.output import say

_KEYS = {"HOOKGW_GLOBAL_KEY": 24, "WAHA_API_KEY": 24, "GRAFANA_PASSWORD": 12}
"""The keys in .env, and of how many random bytes each is made. A byte is two characters."""
_GOWA_KEY = "GOWA_PASSWORD"
_SHORTEST = 16
_OTHER_NAMES = ("compose.yml", "docker-compose.yaml", "docker-compose.yml")
_ASSIGNMENT = re.compile(r"""\s*(?:export\s+)?(\w+)\s*[=:]\s*(["']?)(.*?)\2\s*""")
_ARM = frozenset({"aarch64", "arm64"})
PATIENCE = 20.0
"""Seconds that docker may take to say whether it has compose."""
# GOWA instead of WAHA, because it is one binary. hookgw gets what compose.yaml gives it, elsewhere.
_WITHOUT_COMPOSE = """\
  GOWA (https://github.com/aldinokemal/go-whatsapp-web-multidevice/releases), one binary, in this folder:

    set -a && . ./.env && set +a
    export APP_HOST=127.0.0.1 APP_PORT=3000 APP_BASIC_AUTH="hookgw:$GOWA_PASSWORD"
    ./whatsapp rest

  hookgw, in this folder:

    set -a && . ./.env && set +a
    export HOOKGW_SERVER__PUBLIC_URL=http://127.0.0.1:8080
    export HOOKGW_INSTANCES__INTEGRATIONS='{"WHATSAPP-BAILEYS": "gowa"}'
    export HOOKGW_PLUGINS__OPTIONS__GOWA__BASE_URL=http://127.0.0.1:3000
    export HOOKGW_PLUGINS__OPTIONS__GOWA__SERVERS='["http://127.0.0.1:3000"]'
    export HOOKGW_PLUGINS__OPTIONS__GOWA__USER=hookgw
    export HOOKGW_PLUGINS__OPTIONS__GOWA__PASSWORD="'$GOWA_PASSWORD'"
    hookgw serve
"""


@click.group(cls=CommandGroup)
def init() -> None:
    """Prepare a folder in which one command starts everything."""


@init.command()
def whatsapp() -> None:
    """Prepare hookgw with WAHA, which connects WhatsApp accounts.

    Run it in a clone of hookgw, or in an empty folder. It writes compose.yaml if there is none, and the keys
    that .env lacks; what is there stays. Then it prints the command that starts everything.
    """
    try:
        _prepare_compose_file(Path("compose.yaml"))
        with_compose = has_compose()
        new, short = _add_to_env(Path(".env"), _KEYS if with_compose else {**_KEYS, _GOWA_KEY: 24})
    except OSError as error:
        raise Failed(f"{error.filename or 'This folder'}: {error.strerror}.") from error
    for name in short:
        say(f"{name} in .env has fewer than {_SHORTEST} characters. It stays; take a longer one.", err=True)
    say(f".env has all keys. New: {', '.join(new)}." if new else ".env has all keys, and stays as it is.")
    if with_compose and not Path("Dockerfile").exists() and not _values_in(Path(".env")).get("HOOKGW_SOURCE"):
        say(
            "The image of hookgw is built from a clone: set HOOKGW_SOURCE in .env to its folder, or build it "
            "there once, with `docker build -t hookgw .`.",
            err=True,
        )
    if with_compose:
        say("Next:", "", "  docker compose --profile whatsapp up", "")
    else:
        say("docker compose was not found. Without it, start these two, each in a terminal:", "")
        say(*_WITHOUT_COMPOSE.split("\n"))
    say(
        "Then open http://127.0.0.1:8080/dashboard, log in with HOOKGW_GLOBAL_KEY of .env, create an "
        f"instance with the integration {'waha' if with_compose else 'gowa'}, connect it, and scan its code."
    )


def _prepare_compose_file(file: Path) -> None:
    others = [name for name in _OTHER_NAMES if file.with_name(name).exists()]
    if others and not file.exists():
        raise Failed(
            f"{others[0]} is here, which is not hookgw's. Use an empty folder, or a clone of hookgw."
        )
    if not file.exists():
        # In the installed package, or beside it in a checkout.
        installed = resources.files("hookgw.app") / "compose.yaml"
        source = installed if installed.is_file() else Path(__file__).parents[2] / "compose.yaml"
        try:
            file.write_text(source.read_text("utf-8"), encoding="utf-8")
        except OSError:
            file.unlink(missing_ok=True)  # a part of it would be taken for another program's
            raise
        return
    try:
        found = yaml.safe_load(file.read_text("utf-8"))
        profiles = [profile for one in found["services"].values() for profile in one.get("profiles", ())]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        profiles = []
    if "whatsapp" not in profiles:
        raise Failed(
            "compose.yaml is here, and has no profile whatsapp: it is another program's, or that of a former "
            "hookgw. Use an empty folder, or take compose.yaml of this version."
        )


def _add_to_env(file: Path, keys: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Add what a file .env lacks; return the new names, and the keys that are there and too short."""
    values, text = _values_in(file), file.read_text("utf-8") if file.exists() else ""
    wanted = {name: secrets.token_hex(size) for name, size in keys.items()}
    if platform.machine().lower() in _ARM:
        wanted["WAHA_CPU"] = "-arm"
    if not file.with_name("Dockerfile").exists() and (source := _source()):
        wanted["HOOKGW_SOURCE"] = shlex.quote(source)  # shells read the file, too
    new = {name: value for name, value in wanted.items() if not values.get(name)}
    if new:
        added = "".join(f"{name}={value}\n" for name, value in new.items())
        # Appended, so that a line of the user's is never lost. The file is made for its owner alone.
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as opened:
            opened.write(added if not text or text.endswith("\n") else "\n" + added)
    short = [name for name in keys if name not in new and len(values[name]) < _SHORTEST]
    return list(new), short


def _values_in(file: Path) -> dict[str, str]:
    """Return the variables of a file .env. Of a name with two lines, the last one counts."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = map(_ASSIGNMENT.fullmatch, lines)
    return {one[1]: one[3] for one in found if one is not None}


def _source() -> str:
    """Return where Compose finds a clone of hookgw to build the image from; empty if that is not known."""
    source = installed_from().removeprefix("git+")
    return source if "://" in source or (Path(source) / "Dockerfile").is_file() else ""


def has_compose() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        asked = subprocess.run(  # noqa: S603 -- it is the program that the user would call
            [docker, "compose", "version"], capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
