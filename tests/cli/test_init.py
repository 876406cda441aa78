"""``hookgw init``: the keys, compose.yaml, and the next command."""

import resource
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.public.command import main
from tests.support.compose import read_env, services_of

ROOT = Path(__file__).parents[2]
KEYS = ("HOOKGW_GLOBAL_KEY", "WAHA_API_KEY", "GRAFANA_PASSWORD")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory, on a machine without Docker."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    made = tmp_path / "empty"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def docker(folder: Path, script: str) -> None:
    """Put a program ``docker`` into the PATH."""
    program = folder.parent / "bin" / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def init() -> Result:
    return CliRunner().invoke(main, ["init", "whatsapp"])


def test_an_empty_folder_gets_all_that_compose_needs(folder: Path) -> None:
    docker(folder, '[ "$1 $2" = "compose version" ]')
    done = init()
    assert done.exit_code == 0, done.output
    assert (folder / "compose.yaml").read_text("utf-8") == (ROOT / "compose.yaml").read_text("utf-8")
    values = read_env(folder / ".env")
    assert all(len(values[name]) >= 16 for name in KEYS)
    assert len({values[name] for name in KEYS}) == len(KEYS)
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    # The image is built from the clone that hookgw was installed from.
    assert (Path(values["HOOKGW_SOURCE"]) / "Dockerfile").is_file()
    commands = [line for line in done.output.splitlines() if line.startswith("  ")]
    assert commands == ["  docker compose --profile whatsapp up"]
    assert set(services_of(folder / "compose.yaml", values, ["whatsapp"])) == {"hookgw", "waha"}
    # No key is printed: terminals are shared, and logged.
    assert not any(values[name] in done.output for name in KEYS)


def test_a_second_time_changes_nothing(folder: Path) -> None:
    init()
    before = (folder / ".env").read_bytes()
    assert init().exit_code == 0
    assert (folder / ".env").read_bytes() == before


def test_a_full_disk_leaves_no_part_of_a_file(folder: Path) -> None:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        done = init()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert (done.exit_code, done.stderr) == (1, "Error: This folder: File too large.\n")
    assert list(folder.iterdir()) == []
    assert init().exit_code == 0


@pytest.mark.parametrize("end", ["", "\n"])
def test_values_that_are_there_stay(folder: Path, end: str) -> None:
    own = "# mine\nHOOKGW_GLOBAL_KEY='a longer key of my own'\nexport GRAFANA_PASSWORD=short\nWAHA_API_KEY="
    (folder / ".env").write_text(own + end, encoding="utf-8")
    done = init()
    text = (folder / ".env").read_text("utf-8")
    assert text.startswith(own + "\n")
    values = read_env(folder / ".env")
    assert values["HOOKGW_GLOBAL_KEY"] == "a longer key of my own"
    assert values["GRAFANA_PASSWORD"] == "short"
    assert len(values["WAHA_API_KEY"]) >= 16  # an empty value is none
    assert "GRAFANA_PASSWORD in .env has fewer than 16 characters" in done.stderr
    assert "HOOKGW_GLOBAL_KEY in .env" not in done.stderr


def test_a_clone_is_its_own_source(folder: Path) -> None:
    (folder / "Dockerfile").touch()
    init()
    assert "HOOKGW_SOURCE" not in read_env(folder / ".env")


def test_without_a_clone_it_says_where_the_image_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker(folder, "exit 0")
    assert "HOOKGW_SOURCE" not in init().stderr
    (folder / ".env").unlink()
    monkeypatch.setattr("hookgw.app.init.installed_from", lambda: "")  # from an index, or the single binary
    assert "set HOOKGW_SOURCE in .env" in init().stderr
    monkeypatch.setattr("hookgw.app.init.installed_from", lambda: "git+https://git.example/hookgw.git")
    assert "HOOKGW_SOURCE" not in init().stderr
    assert read_env(folder / ".env")["HOOKGW_SOURCE"] == "https://git.example/hookgw.git"


def test_shells_and_compose_read_a_clone_in_a_folder_with_a_space(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = folder / "my clone"
    clone.mkdir()
    (clone / "Dockerfile").touch()
    monkeypatch.setattr("hookgw.app.init.installed_from", lambda: str(clone))
    init()
    assert read_env(folder / ".env")["HOOKGW_SOURCE"] == str(clone)
    script = '. ./.env && printf %s "$HOOKGW_SOURCE"'
    assert subprocess.check_output(["/bin/sh", "-c", script], text=True) == str(clone)


def test_arm_has_an_image_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init()
    images = [services_of(ROOT / "compose.yaml", read_env(folder / ".env"), ["whatsapp"])["waha"]["image"]]
    (folder / ".env").unlink()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    init()
    images.append(
        services_of(ROOT / "compose.yaml", read_env(folder / ".env"), ["whatsapp"])["waha"]["image"]
    )
    assert images == ["devlikeapro/waha:gows-2026.9.2", "devlikeapro/waha:gows-arm-2026.9.2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docker-compose.yml", "services: {}"),
        ("compose.yaml", "services: {web: {image: nginx}}"),
        ("compose.yaml", "no mapping"),
        ("compose.yaml", "services: !reset"),
    ],
)
def test_the_file_of_another_program_is_not_touched(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    done = init()
    assert done.exit_code == 1
    assert f"{name} is here" in done.output
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text("utf-8") == text


@pytest.mark.parametrize("script", ["", "exit 1", "exec sleep 5"])
def test_without_compose_it_says_what_to_start(
    folder: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.app.init.PATIENCE", 0.05)
    if script:
        monkeypatch.setenv("PATH", f"{folder.parent}/bin:/bin:/usr/bin")
        docker(folder, script)
    done = init()
    assert done.exit_code == 0, done.output
    assert "docker compose was not found" in done.output
    assert "\n    hookgw serve\n" in done.output


def test_a_folder_that_cannot_be_written_to_is_named(folder: Path) -> None:
    (folder / ".env").mkdir()
    done = init()
    assert done.exit_code == 1
    assert ".env: Is a directory." in done.output
