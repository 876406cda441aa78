"""The unit of systemd, as systemd's own tool sees it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.public.config import load_settings

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "hookgw.service"
PROGRAM = "/usr/local/bin/hookgw"
HIGHEST_EXPOSURE = 2.0
ANALYZE = shutil.which("systemd-analyze")

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists on every machine."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace(PROGRAM, "/bin/sh"), encoding="utf-8")
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False)


@needs_systemd
def test_systemd_accepts_the_unit(unit: Path) -> None:
    done = analyze("verify", unit)
    # It also complains of other units of this machine.
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


@needs_systemd
def test_the_service_is_hardened(unit: Path) -> None:
    done = analyze("security", "--offline=true", "--no-pager", unit)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure is not None, done.stdout + done.stderr
    assert float(exposure[1]) < HIGHEST_EXPOSURE


def test_the_metrics_of_the_process_are_not_hidden() -> None:
    """CPU, memory and open files: the collector reads none of them where there is no ``/proc/stat``."""
    assert not re.search(r"^ProcSubset=pid", UNIT.read_text("utf-8"), re.MULTILINE)


def test_its_settings_are_hookgws() -> None:
    text = UNIT.read_text("utf-8").replace("%S", "/var/lib").replace("%d", "/run/credentials/hookgw")
    given = dict(re.findall(r"^#?Environment=(HOOKGW_[A-Z_]+)=(.+)$", text, re.MULTILINE))
    settings = load_settings(None, given)
    assert settings.storage.path == "/var/lib/hookgw/hookgw.db"
    assert settings.storage.master_key_file == "/run/credentials/hookgw/master_key"
