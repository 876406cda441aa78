import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
import structlog

from hookgw import hookimpl
from hookgw.plugins import discovery
from tests.public.config import PluginsSettings
from tests.public.kernel import StartError
from tests.public.plugins import LoadedPlugins, PluginInfo, load_plugins

Write = Callable[..., Path]

FILTER = """
@hookgw.hookimpl
def hookgw_filter(event):
    return None
"""


def load(tmp_path: Path, **more: object) -> LoadedPlugins:
    return load_plugins(msgspec.convert({"first_party": False, **more}, PluginsSettings), base=tmp_path)


def names(loaded: LoadedPlugins) -> list[str]:
    return [info.name for info in loaded.plugins]


def module_of(loaded: LoadedPlugins, name: str) -> ModuleType:
    module = loaded.manager.get_plugin(name)
    assert isinstance(module, ModuleType)
    return module


def refusal(tmp_path: Path, **more: object) -> str:
    with pytest.raises(StartError) as caught:
        load(tmp_path, **more)
    return str(caught.value)


def test_modules_and_packages_of_a_folder_are_plugins(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", FILTER)
    write_plugin("audit/__init__.py", FILTER)
    for passed_over in ("_helper.py", ".hidden.py", "_private/__init__.py", "folder_without_init/crm.py"):
        write_plugin(passed_over, "raise RuntimeError")
    (tmp_path / "plugins" / "README.md").write_text("")
    loaded = load(tmp_path)
    assert names(loaded) == ["audit", "crm"]
    assert loaded.plugins[1] == PluginInfo(
        name="crm", source=str(tmp_path / "plugins" / "crm.py"), hooks=("hookgw_filter",)
    )


def test_relative_imports_work_in_packages_and_folders(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("audit/__init__.py", "from .parts import VALUE\n" + FILTER)
    write_plugin("audit/parts.py", "import wave\nVALUE = wave.__name__")
    write_plugin("crm.py", "from ._shared import VALUE\nimport json\n" + FILTER)
    write_plugin("_shared.py", "VALUE = 2")
    write_plugin("json.py", "import json as own\nSELF = own\n" + FILTER)
    loaded = load(tmp_path)
    assert module_of(loaded, "audit").VALUE == "wave"
    assert module_of(loaded, "crm").VALUE == 2
    assert module_of(loaded, "crm").json.__name__ == "json"
    assert module_of(loaded, "json").SELF is sys.modules["json"]


def test_folders_with_the_same_helper_do_not_clash(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("one.py", "from ._shared import VALUE\n" + FILTER, folder="a")
    write_plugin("_shared.py", "VALUE = 'a'", folder="a")
    write_plugin("two.py", "from ._shared import VALUE\n" + FILTER, folder="b")
    write_plugin("_shared.py", "VALUE = 'b'", folder="b")
    loaded = load(tmp_path, folders=("a", "b"))
    assert [module_of(loaded, name).VALUE for name in ("one", "two")] == ["a", "b"]


def test_two_loads_share_no_modules(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", FILTER)
    assert module_of(load(tmp_path), "crm") is not module_of(load(tmp_path), "crm")


def test_the_default_folder_may_be_missing(tmp_path: Path) -> None:
    assert load(tmp_path).plugins == ()


def test_any_other_missing_folder_stops_the_start(tmp_path: Path) -> None:
    assert f"plugins.folders: {tmp_path / 'more'} is not a folder" in refusal(tmp_path, folders=("more",))


def test_a_file_instead_of_the_default_folder_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("")
    assert "is not a folder" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("target", "problem"),
    [("nothing", "plugins is not a folder"), ("x" * 300, "plugins cannot be read: File name too long")],
)
def test_a_default_folder_that_is_a_link_to_no_folder_stops_the_start(
    tmp_path: Path, target: str, problem: str
) -> None:
    """A filter in it would be missed in silence. The long name stands for a folder in a locked one."""
    (tmp_path / "plugins").symlink_to(target)
    assert problem in refusal(tmp_path)


@pytest.mark.parametrize("name", ["crm.py", "crm"])
def test_a_link_to_nothing_in_a_folder_is_a_plugin_that_cannot_be_loaded(tmp_path: Path, name: str) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / name).symlink_to("nothing")
    assert f"Plugin 'crm' ({tmp_path}/plugins/{name}) cannot be loaded: " in refusal(tmp_path)


def test_a_link_to_itself_in_a_folder_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "crm.py").symlink_to("crm.py")
    assert "plugins cannot be read: Too many levels of symbolic links" in refusal(tmp_path)


def test_a_folder_that_cannot_be_read_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugins").mkdir()

    def denied(_: Path) -> list[discovery.Candidate]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(discovery, "find_in_folder", denied)
    assert "plugins cannot be read: Permission denied" in refusal(tmp_path)


def test_a_module_named_in_the_configuration(
    tmp_path: Path, write_plugin: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plugin("acme_hooks/crm.py", "__version__ = '1.2'\n" + FILTER, folder="site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    loaded = load(tmp_path, names=("acme_hooks.crm",))
    assert loaded.plugins == (
        PluginInfo(
            name="acme_hooks.crm", source="module acme_hooks.crm", version="1.2", hooks=("hookgw_filter",)
        ),
    )


def test_the_error_for_an_unknown_module_shows_no_line_of_hookgw(tmp_path: Path) -> None:
    said = refusal(tmp_path, names=("no_such_module_x",))
    assert (
        "Plugin 'no_such_module_x' (module no_such_module_x) cannot be loaded: ModuleNotFoundError:" in said
    )


@pytest.fixture
def acme_distribution(tmp_path: Path, write_plugin: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with the entry point ``crm``."""
    write_plugin("acme_hookgw.py", FILTER, folder="site")
    info = tmp_path / "site" / "acme_hookgw-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-hookgw\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text("[hookgw]\ncrm = acme_hookgw\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "acme_hookgw", raising=False)


@pytest.mark.usefixtures("acme_distribution")
def test_an_entry_point_is_a_plugin_with_a_version(tmp_path: Path) -> None:
    assert load(tmp_path).plugins == (
        PluginInfo(name="crm", source="entry point of acme-hookgw", version="3.1", hooks=("hookgw_filter",)),
    )


@pytest.mark.usefixtures("acme_distribution")
def test_a_module_found_by_name_and_entry_point_is_loaded_once(tmp_path: Path) -> None:
    assert names(load(tmp_path, names=("acme_hookgw",))) == ["acme_hookgw"]


@pytest.mark.usefixtures("acme_distribution")
def test_two_plugins_with_one_name_stop_the_start(tmp_path: Path, write_plugin: Write) -> None:
    path = write_plugin("crm.py", FILTER)
    assert f"Two plugins are called 'crm': {path} and entry point of acme-hookgw." in refusal(tmp_path)
    assert names(load(tmp_path, disabled=("crm",))) == ["crm", "crm"]


def given(tmp_path: Path, plugins: dict[str, object], **more: Any) -> LoadedPlugins:
    settings = msgspec.convert({"first_party": False, **more}, PluginsSettings)
    return load_plugins(settings, base=tmp_path, extra=plugins)


@pytest.mark.usefixtures("acme_distribution")
@pytest.mark.parametrize("name", ["crm", "mine"])
def test_a_plugin_that_is_given_is_not_found_again_through_its_entry_point(tmp_path: Path, name: str) -> None:
    acme = importlib.import_module("acme_hookgw")
    loaded = given(tmp_path, {name: acme}, names=("acme_hookgw",))
    assert [(info.name, info.source) for info in loaded.plugins] == [(name, "given by the program")]
    assert loaded.manager.get_plugin(name) is acme


def test_an_installed_plugin_that_is_given_under_another_module_name_runs_once(
    tmp_path: Path, acme_distribution: None
) -> None:
    # An editable install, and a test that imports the file from its folder.
    file = tmp_path / "site" / "acme_hookgw.py"
    file.write_text(file.read_text() + "\nimport sys\nsys.hookgw_runs = getattr(sys, 'hookgw_runs', 0) + 1\n")
    spec = importlib.util.spec_from_file_location("src_acme", file)
    assert spec is not None
    assert spec.loader is not None
    acme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(acme)
    assert names(given(tmp_path, {"mine": acme})) == ["mine"]
    assert vars(sys).pop("hookgw_runs") == 1


@pytest.mark.usefixtures("acme_distribution")
def test_an_object_that_is_given_is_not_found_again_through_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "site" / "acme_hookgw.py").write_text("class Plugin: pass\nplugin = Plugin()\n")
    entry_points = tmp_path / "site" / "acme_hookgw-3.1.dist-info" / "entry_points.txt"
    entry_points.write_text("[hookgw]\ncrm = acme_hookgw:plugin\n")
    acme = importlib.import_module("acme_hookgw")
    for plugin in (acme.plugin, acme.Plugin()):
        assert names(given(tmp_path, {"mine": plugin})) == ["mine"]
    assert names(given(tmp_path, {"crm": SimpleNamespace()})) == ["crm"]
    assert names(given(tmp_path, {"mine": SimpleNamespace()})) == ["crm", "mine"]


def test_a_file_of_a_folder_that_is_given_is_loaded_once(tmp_path: Path, write_plugin: Write) -> None:
    path = write_plugin("crm/__init__.py", FILTER)
    module = ModuleType("crm")
    module.__file__ = str(path)
    assert names(given(tmp_path, {"mine": module})) == ["mine"]
    assert names(given(tmp_path, {"mine": SimpleNamespace()})) == ["crm", "mine"]


def test_a_module_and_a_package_with_one_name_stop_the_start(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", FILTER)
    write_plugin("crm/__init__.py", FILTER)
    assert "Two plugins are called 'crm'" in refusal(tmp_path)


def test_a_file_found_twice_is_loaded_once(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", FILTER)
    (tmp_path / "linked").symlink_to(tmp_path / "plugins")
    assert names(load(tmp_path, folders=("plugins", "linked", "plugins"))) == ["crm"]


def test_disabled_plugins_are_listed_and_not_imported(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", "raise RuntimeError")
    (info,) = load(tmp_path, disabled=("crm",)).plugins
    assert (info.enabled, info.error, info.hooks) == (False, None, ())


def test_order_comes_first(tmp_path: Path, write_plugin: Write) -> None:
    for name in "abcd":
        write_plugin(f"{name}.py", FILTER)
    loaded = load(tmp_path, order=("d", "d", "b"))
    assert names(loaded) == ["d", "b", "a", "c"]
    called = [found.plugin_name for found in reversed(loaded.manager.hook.hookgw_filter.get_hookimpls())]
    assert called == ["d", "b", "a", "c"]


def test_unknown_names_in_the_settings_cause_a_warning(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        load(tmp_path, disabled=("ghost",), order=("spook",), optional=("may_be_missing",))
    assert [(entry["setting"], entry["name"]) for entry in logs] == [
        ("plugins.disabled", "ghost"),
        ("plugins.order", "spook"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("\n1 / 0", 3, "ZeroDivisionError: division by zero"),
        ("def broken(:", 2, "SyntaxError: "),
        ("import no_such_module_x", 2, "ModuleNotFoundError: No module named 'no_such_module_x'"),
        ("import sys\nsys.exit(3)", 3, "SystemExit: 3"),
        ("import json\njson.loads('{')", 3, "JSONDecodeError: "),
        ("raise RuntimeError('no key:\\n  set one')", 2, "RuntimeError: no key: set one. Fix"),
    ],
)
def test_an_import_failure_is_reported_with_file_and_line(
    tmp_path: Path, write_plugin: Write, text: str, line: int, reason: str
) -> None:
    path = write_plugin("crm.py", text)
    said = refusal(tmp_path)
    assert f"Plugin 'crm' ({path}) cannot be loaded: {path}, line {line}: {reason}" in said
    assert "Fix the plugin, or add crm to plugins.disabled or plugins.optional." in said


def test_an_import_failure_is_located_in_the_failing_submodule(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm/__init__.py", "from . import parts")
    parts = write_plugin("crm/parts.py", "raise RuntimeError('no key')")
    assert f"{parts}, line 2: RuntimeError: no key" in refusal(tmp_path)


def test_a_wrong_hook_stops_the_start(tmp_path: Path, write_plugin: Write) -> None:
    path = write_plugin("crm.py", "@hookgw.hookimpl\ndef hookgw_fitler(event): ...")
    said = refusal(tmp_path)
    assert f"Plugin 'crm' ({path}) cannot be loaded: hookgw has no hook hookgw_fitler. Did you mean" in said
    assert "Did you mean hookgw_filter? Fix the plugin" in said


def test_all_failing_plugins_are_named(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("a.py", "1 / 0")
    write_plugin("b.py", "1 / 0")
    with pytest.raises(StartError) as caught:
        load(tmp_path)
    assert ["'a'" in caught.value.messages[0], "'b'" in caught.value.messages[1]] == [True, True]


def test_a_failing_optional_plugin_is_listed_with_its_error(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", "1 / 0")
    write_plugin("audit.py", FILTER)
    with structlog.testing.capture_logs() as logs:
        loaded = load(tmp_path, optional=("crm",))
    audit, crm = loaded.plugins
    assert audit.enabled
    assert not crm.enabled
    assert "ZeroDivisionError" in (crm.error or "")
    assert loaded.manager.get_plugin("crm") is None
    ((plugin, trace),) = [(entry["plugin"], entry["exception"]) for entry in logs]
    assert plugin == "crm"
    assert "1 / 0" in trace


@pytest.mark.parametrize(
    "text",
    [
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "import asyncio; raise asyncio.CancelledError",
        "raise SystemExit(0)",
        "raise BaseExceptionGroup('', [KeyboardInterrupt(), ValueError()])",
        "class Odd(BaseException):\n    def __getattribute__(self, name): raise self\nraise Odd",
    ],
)
def test_whatever_an_import_raises_is_the_plugins_failure(
    tmp_path: Path, write_plugin: Write, text: str
) -> None:
    write_plugin("crm.py", text)
    assert refusal(tmp_path).startswith("Plugin 'crm' (")
    assert load(tmp_path, optional=("crm",)).plugins[0].error


@pytest.mark.parametrize("end", ["", "raise OSError"])
def test_the_working_directory_stays(
    tmp_path: Path, write_plugin: Write, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Of a folder that is gone, the system tells no name.
    leave = "import os\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"
    write_plugin("leaves.py", leave + end)
    load(tmp_path, optional=["leaves"])
    assert Path.cwd() == tmp_path


def test_an_object_with_an_attribute_that_raises_is_refused(tmp_path: Path) -> None:
    class Odd:
        @property
        def hookgw_filter(self) -> None:
            raise GeneratorExit

    settings = PluginsSettings(first_party=False, folders=())
    with pytest.raises(StartError, match=r"Plugin 'odd' .* cannot be loaded: .*GeneratorExit"):
        load_plugins(settings, base=tmp_path, extra={"odd": Odd()})


def test_a_file_name_with_a_second_dot_is_refused(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.old.py", FILTER)
    assert "crm.old.py: the name of a plugin must not contain a dot" in refusal(tmp_path)


def test_a_plugin_without_hooks_causes_a_warning(tmp_path: Path, write_plugin: Write) -> None:
    write_plugin("crm.py", "")
    with structlog.testing.capture_logs() as logs:
        load(tmp_path)
    assert [entry["event"] for entry in logs] == ["plugin has no hooks"]


def test_an_object_can_be_a_plugin(tmp_path: Path) -> None:
    mine = SimpleNamespace(hookgw_filter=hookimpl(lambda event: True))
    loaded = load_plugins(PluginsSettings(first_party=False), base=tmp_path, extra={"mine": mine})
    assert loaded.plugins == (
        PluginInfo(name="mine", source="given by the program", hooks=("hookgw_filter",)),
    )
    assert loaded.manager.get_plugin("mine") is mine


FIRST_PARTY = sorted(
    path.stem
    for path in (Path(__file__).parents[2] / "plugins").iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
)


def test_first_party_plugins_are_loaded_by_default(tmp_path: Path) -> None:
    assert names(load_plugins(PluginsSettings(), base=tmp_path)) == FIRST_PARTY


def test_the_first_party_folder_can_be_switched_off(tmp_path: Path) -> None:
    assert load_plugins(PluginsSettings(first_party=False), base=tmp_path).plugins == ()


def test_the_first_party_folder_as_a_configured_folder_is_loaded_once() -> None:
    checkout = Path(__file__).parents[2]
    assert names(load_plugins(PluginsSettings(), base=checkout)) == FIRST_PARTY
    assert load_plugins(PluginsSettings(first_party=False), base=checkout).plugins == ()


@pytest.mark.parametrize("first_party", [True, False])
def test_in_a_checkout_the_installed_plugins_win_over_their_copies(
    tmp_path: Path, write_plugin: Write, monkeypatch: pytest.MonkeyPatch, first_party: bool
) -> None:
    """``pip install .`` and then ``hookgw serve``, both in a checkout."""
    installed = Path(__file__).parents[2] / "plugins"
    monkeypatch.setattr(discovery, "first_party_folder", lambda: installed)
    (tmp_path / "hookgw" / "plugins").mkdir(parents=True)
    (tmp_path / "hookgw" / "plugins" / "discovery.py").touch()
    write_plugin("message_filters.py", FILTER)
    write_plugin("crm.py", FILTER)
    loaded = load_plugins(PluginsSettings(first_party=first_party), base=tmp_path)
    assert names(loaded) == [*(FIRST_PARTY if first_party else []), "crm"]
    assert all(str(tmp_path) not in plugin.source for plugin in loaded.plugins if plugin.name != "crm")


def test_a_plugin_with_the_name_of_a_first_party_plugin_stops_the_start(
    tmp_path: Path, write_plugin: Write
) -> None:
    write_plugin("message_filters.py", FILTER)
    assert "Two plugins are called 'message_filters'" in refusal(tmp_path, first_party=True)


def test_an_installed_package_contains_the_first_party_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "hookgw"
    (package / "_first_party").mkdir(parents=True)
    monkeypatch.setattr(discovery, "__file__", str(package / "plugins" / "discovery.py"))
    assert discovery.first_party_folder() == package / "_first_party"
    (package / "_first_party").rmdir()
    assert discovery.first_party_folder() is None


def test_a_copy_of_the_package_without_the_first_party_plugins_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an archive from which Python imports hookgw."""
    monkeypatch.setattr(discovery, "__file__", str(tmp_path / "hookgw" / "plugins" / "discovery.py"))
    expected = (
        f"plugins.first_party: hookgw's own plugins are missing in {tmp_path / 'hookgw'}. Install hookgw"
    )
    assert expected in refusal(tmp_path, first_party=True)
    assert names(load(tmp_path)) == []
