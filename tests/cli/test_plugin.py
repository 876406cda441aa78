"""``hookgw plugin new``: what it writes passes its own tests, and the checks of its nox file."""

import json
import os
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.public.command import main
from tests.support.processes import run

LONGEST = "a" + "-b1" * 9 + "-c"


def new(folder: Path, *arguments: str) -> Path:
    done = CliRunner().invoke(main, ["plugin", "new", *arguments, "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    (package,) = folder.iterdir()
    assert f"cd {package}" in done.output
    return package


def checked(package: Path, tool: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=package,
        env={**os.environ, "MYPYPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "options", "files", "passed"),
    [
        ("acme", [], ["hookgw_acme/__init__.py"], 4),
        ("acme", ["--connector"], ["hookgw_acme/__init__.py", "hookgw_acme/connector.py"], 5),
        ("acme", ["--destination"], ["hookgw_acme/__init__.py"], 3),
    ],
)
def test_the_package_passes_its_tests(
    tmp_path: Path, name: str, options: list[str], files: list[str], passed: int
) -> None:
    package = new(tmp_path, name, *options)
    found = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    common = [".gitignore", "README.md", "noxfile.py", "pyproject.toml", "tests/test_acme.py"]
    assert found == sorted([*common, *files, "hookgw_acme/py.typed"])
    assert [path for path in found if "{{" in (package / path).read_text("utf-8")] == []
    # A whole pytest session: with both cores busy it can take longer than a command.
    done = run(["-m", "pytest", "-p", "no:cacheprovider", "-W", "error"], cwd=package, patience=100)
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("options", [[], ["--connector"], ["--destination"]])
@pytest.mark.parametrize("name", ["a", LONGEST])
def test_the_package_is_well_formed_with_every_name(tmp_path: Path, name: str, options: list[str]) -> None:
    pytest.importorskip("ruff", reason="nox -s types has ruff")
    package = new(tmp_path, name, *options)
    checked(package, "ruff", "format", "--check", "--no-cache", ".")
    checked(package, "ruff", "check", "--no-cache", ".")


def test_the_package_has_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="nox -s types has mypy")
    for folder, options in (
        ("plugin", ()),
        ("connector", ("--connector",)),
        ("destination", ("--destination",)),
    ):
        (tmp_path / folder).mkdir()
        # The second run takes what the first one learned of hookgw.
        checked(new(tmp_path / folder, "acme", *options), "mypy", f"--cache-dir={tmp_path}/cache")


def test_a_connector_with_hyphens(tmp_path: Path) -> None:
    package = new(tmp_path, "hookgw-acme-crm", "--connector")
    assert package.name == "hookgw-acme-crm"
    text = (package / "pyproject.toml").read_text("utf-8")
    assert 'name = "hookgw-acme-crm"' in text
    assert 'acme_crm = "hookgw_acme_crm"' in text
    assert "class AcmeCrm(" in (package / "hookgw_acme_crm/connector.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Acme", "lower-case letters"),
        ("a--b", "single hyphens"),
        ("acme_crm", "such as acme-crm"),
        ("9x", "beginning with a letter"),
        ("../acme", "not a name"),
        ("", "not a name"),
        (f"{LONGEST}d", "up to 30"),
        ("matrix", "hookgw itself has a plugin matrix"),
        ("message-filters", "hookgw itself has a plugin message_filters"),
    ],
)
def test_other_names_are_refused(tmp_path: Path, name: str, sentence: str) -> None:
    done = CliRunner().invoke(main, ["plugin", "new", name, "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["acme", "--connector", "--destination"], "Choose --connector or --destination"),
        (["https", "--destination"], "The scheme https is reserved for hookgw"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, ["plugin", "new", *arguments, "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert sentence in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "hookgw-acme").mkdir()
    done = CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(tmp_path)])
    assert done.exit_code == 1
    assert "hookgw-acme exists" in done.output
    assert list((tmp_path / "hookgw-acme").iterdir()) == []


def test_its_commands_work_in_a_folder_with_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "my plugins"
    folder.mkdir()
    shown = CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(folder)]).output
    assert f"  cd '{folder}/hookgw-acme'\n" in shown


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    done = CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output.endswith("hookgw-acme: Permission denied.\n")


@pytest.mark.parametrize(
    ("direct_url", "shown"),
    [
        (None, "  nox "),
        ({"url": "file:///src/my%20hookgw", "dir_info": {}}, "  HOOKGW='/src/my hookgw' nox "),
        (
            {"url": "https://example.org/h.git", "vcs_info": {"vcs": "git"}},
            "  HOOKGW=git+https://example.org/h.git nox ",
        ),
        ({"url": "https://example.org/hookgw.whl", "archive_info": {}}, "  nox "),
    ],
)
def test_nox_gets_hookgw_from_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: object, shown: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if direct_url is None else json.dumps(direct_url)

    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed())
    done = CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(tmp_path)])
    assert shown in done.output


def test_hookgw_without_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert "  nox " in CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(tmp_path)]).output


def test_the_binary_finds_plugins_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hookgw.app.plugin.IS_BINARY", True)
    monkeypatch.setattr("hookgw.app.installed.IS_BINARY", True)
    shown = CliRunner().invoke(main, ["plugin", "new", "acme-crm"]).output
    assert f"  cp -r hookgw_acme_crm {tmp_path}/plugins/acme_crm " in shown
    assert "pip install -e" not in shown
    assert "HOOKGW=" not in shown


def test_a_full_disk_leaves_no_part_of_a_package(tmp_path: Path) -> None:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        done = CliRunner().invoke(main, ["plugin", "new", "acme", "--folder", str(tmp_path)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert (done.exit_code, done.stderr) == (1, f"Error: {tmp_path}/hookgw-acme: File too large.\n")
    assert list(tmp_path.iterdir()) == []
    new(tmp_path, "acme")


def test_plugin_list_is_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKGW_CONFIG", "")
    listed = CliRunner().invoke(main, ["plugin", "list", "--json"])
    assert listed.exit_code == 0, listed.output
    assert listed.output == CliRunner().invoke(main, ["plugins", "--json"]).output


def test_a_connector_is_short(tmp_path: Path) -> None:
    files = new(tmp_path, "acme", "--connector").rglob("*.py")
    lines = [line for file in files for line in file.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 200
