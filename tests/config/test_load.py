"""Loading the settings: the file, the environment, their precedence, and the messages."""

from pathlib import Path

import pytest

from tests.public.config import Settings, expand, load_settings, variable_of
from tests.public.kernel import DURATION_FORM, ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hookgw.yaml"


def messages(path: Path | None, environ: dict[str, str]) -> tuple[str, ...]:
    """The messages of loading, without the file's folder."""
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ)
    return tuple(text.replace(f"{path.parent}/", "") if path else text for text in caught.value.messages)


def test_without_a_file_and_variables_the_defaults_hold() -> None:
    assert load_settings(None, {"PATH": "/bin", "HOME": "/"}) == Settings()


def test_the_file_is_stronger_than_the_defaults_and_the_environment_than_the_file(file: Path) -> None:
    file.write_text("log: {level: debug, format: json}\n")
    settings = load_settings(file, {"HOOKGW_LOG__LEVEL": "error"})
    assert (settings.log.level, settings.log.format) == ("error", "json")


@pytest.mark.parametrize(
    "content", [b"", b"# nothing\n", b"\xef\xbb\xbflog: {level: info}\n", b"server:\nlog:\n"]
)
def test_a_file_that_says_nothing_new_gives_the_defaults(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert load_settings(file, {}) == Settings()


def test_every_mistake_is_reported_with_path_file_and_line(file: Path) -> None:
    file.write_text(
        "server:\n"
        "  bnd: x\n"
        "  bind: ['127.0.0.1:99999']\n"
        "log:\n"
        "  level: info\n"
        "  level: debug\n"
        "delivery:\n"
        "  timeout: 5\n"
        "  schedule:\n"
        "  - 5s\n"
        "  - never\n"
        "  kept_answer: 1MiB\n"
    )
    assert messages(file, {"HOOKGW_STORAGE__PATH": "", "HOOKGW_SERVR__BIND": "x"}) == (
        "log.level (hookgw.yaml, line 6): this key appears twice, first in line 5: keep one.",
        "HOOKGW_SERVR__BIND: this variable overrides no key. Did you mean HOOKGW_SERVER__BIND?",
        "server.bnd (hookgw.yaml, line 2): this key is unknown. Did you mean server.bind?",
        f"delivery.timeout (hookgw.yaml, line 8): expected {DURATION_FORM}, got 5.",
        f"delivery.schedule[1] (hookgw.yaml, line 11): expected {DURATION_FORM}, got 'never'.",
        "server.bind[0] (hookgw.yaml, line 3): '127.0.0.1:99999': a port is from 0 to 65535.",
        "storage.path (HOOKGW_STORAGE__PATH): must not be empty or contain a NUL character.",
        "delivery.kept_answer (hookgw.yaml, line 12): must not be more than max_answer (64KiB).",
    )


def test_a_default_that_clashes_is_placed_at_its_section_or_not_at_all(file: Path) -> None:
    file.write_text("\ndelivery:\n  max_answer: 1KiB\n")
    clash = "must not be more than max_answer (1KiB)."
    assert messages(file, {}) == (f"delivery.kept_answer (hookgw.yaml, line 2): {clash}",)
    assert messages(None, {"HOOKGW_DELIVERY__MAX_ANSWER": "1KiB"}) == (f"delivery.kept_answer: {clash}",)


class TestFile:
    def test_a_missing_file_is_named(self, file: Path) -> None:
        assert messages(file, {}) == (
            "hookgw.yaml: the configuration file cannot be read: No such file or directory.",
        )

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        assert "cannot be read: Is a directory." in messages(tmp_path, {})[0]

    def test_bytes_that_are_not_utf8_are_reported_with_their_line(self, file: Path) -> None:
        file.write_bytes(b"a: 1\nb: \xff\n")
        assert messages(file, {}) == ("hookgw.yaml, line 2: this is not UTF-8: save the file as UTF-8.",)

    def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(self, file: Path) -> None:
        file.write_bytes(b"#" * 2**20)
        assert load_settings(file, {}) == Settings()
        file.write_bytes(b"#" * (2**20 + 1))
        assert messages(file, {}) == (
            "hookgw.yaml: the file is larger than 1 MiB: this is not a configuration.",
        )

    def test_broken_yaml_is_the_only_mistake_reported(self, file: Path) -> None:
        file.write_text("log:\n  level: [\n")
        (message,) = messages(file, {"HOOKGW_STORAGE__URL": "postgresql://db/hooks"})
        assert message.startswith("hookgw.yaml, line 3: this is not YAML: ")

    def test_a_file_must_be_a_mapping(self, file: Path) -> None:
        file.write_text("- server\n")
        assert messages(file, {"HOOKGW_LOG__LEVEL": "info"}) == (
            "hookgw.yaml, line 1: expected a mapping of keys, got a list.",
        )


class TestReferences:
    def test_variables_are_put_in_and_typed_as_if_written_there(self, file: Path) -> None:
        file.write_text(
            'server: {bind: ["${HOST}:${PORT:-81}"]}\ndelivery:\n  lane_buffer: ${N}\n  jitter: ${J:-0.5}\n'
        )
        settings = load_settings(file, {"HOST": "localhost", "N": "7"})
        assert settings.server.bind == ("localhost:81",)
        assert settings.delivery.lane_buffer == 7
        assert settings.delivery.jitter == 0.5

    def test_an_inserted_value_cannot_add_keys(self, file: Path) -> None:
        file.write_text("storage:\n  path: ${P}\n")
        assert load_settings(file, {"P": "a\nlog: {level: debug}"}).storage.path == "a\nlog: {level: debug}"

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("log.level", 'level: "${X}"'),
            ("server.bind[0]", 'bind: ["127.0.0.1:${X}"]'),
            ("storage.retention", "retention: ${X}"),
            ("delivery.allow_networks[1]", 'allow_networks: ["::1", "${X}"]'),
        ],
    )
    def test_a_missing_variable_is_named_with_its_place_and_nothing_else_is(
        self, file: Path, path: str, line: str
    ) -> None:
        file.write_text(f"{path.partition('.')[0]}:\n  {line}\n")
        [message] = messages(file, {})
        assert message == (
            f"{path} (hookgw.yaml, line 2): the environment variable X is not set: "
            "set it, or write ${X:-default}."
        )

    def test_what_takes_the_place_of_a_missing_variable_is_checked(self, file: Path) -> None:
        file.write_text('log:\n  level: "${X}"\n')
        missing, wrong = messages(file, {"HOOKGW_LOG__LEVEL": "loud"})
        assert "X is not set" in missing
        assert wrong.startswith("log.level (HOOKGW_LOG__LEVEL): ")

    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("${A}", "1"),
            ("x${A}y${A}", "x1y1"),
            ("${A:-9}", "1"),
            ("${EMPTY}", ""),
            ("${EMPTY:-9}", "9"),
            ("${NONE:-9}", "9"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b c}", "a:-b c"),
            ("${LOOP}", "${A}"),
            ("$${A}", "${A}"),
            ("$$${A}", "$${A}"),
            ("$A $ {A} $", "$A $ {A} $"),
            ("", ""),
        ],
    )
    def test_expansion(self, text: str, result: str) -> None:
        assert expand(text, {"A": "1", "EMPTY": "", "LOOP": "${A}"}) == result

    @pytest.mark.parametrize("text", ["${}", "${1A}", "${A B}", "${A-x}", "${A", "${", "${Ä}", "a ${:-b}"])
    def test_malformed_references_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="names no variable: write"):
            expand(text, {"A": "1"})


class TestAlerts:
    @pytest.mark.parametrize("plugins", ["", "plugins:\n", "plugins:\n  options:\n"])
    def test_they_are_options_of_the_plugin_and_the_environment_overrides_them(
        self, tmp_path: Path, plugins: str
    ) -> None:
        file = tmp_path / "hookgw.yaml"
        file.write_text(f"alerts: {{zone: UTC, rules: []}}\n{plugins}")
        settings = load_settings(file, {"HOOKGW_PLUGINS__OPTIONS__ALERTS__ZONE": "Europe/Lisbon"})
        assert settings.plugins.options == {"alerts": {"zone": "Europe/Lisbon", "rules": []}}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("{alerts: {}}", "alerts (hookgw.yaml, line 1): plugins.options.alerts is the same"),
            ("5", "plugins.options (hookgw.yaml, line 3): expected a mapping, got 5."),
        ],
    )
    def test_options_beside_them_that_have_them_too_or_are_none(
        self, file: Path, options: str, message: str
    ) -> None:
        file.write_text(f"alerts: {{zone: UTC}}\nplugins:\n  options: {options}\n")
        (found,) = messages(file, {})
        assert found.startswith(message)


class TestOverrides:
    @pytest.mark.parametrize(
        ("variable", "text", "path", "value"),
        [
            (
                "HOOKGW_SERVER__BIND",
                '["0.0.0.0:80", "unix:/run/h"]',
                "server.bind",
                ("0.0.0.0:80", "unix:/run/h"),
            ),
            ("HOOKGW_SERVER__BIND", "0.0.0.0:80", "server.bind", ("0.0.0.0:80",)),
            ("HOOKGW_SERVER__PUBLIC_URL", "null", "server.public_url", None),
            ("HOOKGW_SERVER__PUBLIC_URL", "", "server.public_url", None),
            ("HOOKGW_SERVER__PUBLIC_URL", "https://a", "server.public_url", "https://a"),
            ("HOOKGW_AUTH__GLOBAL_KEY", "123456", "auth.global_key", "123456"),
            ("HOOKGW_AUTH__GLOBAL_KEY", "@*&{[#:'\"", "auth.global_key", "@*&{[#:'\""),
            ("HOOKGW_AUTH__GLOBAL_KEY", "${X}", "auth.global_key", "${X}"),
            ("HOOKGW_STORAGE__PATH", "null", "storage.path", "null"),
            ("HOOKGW_INSTANCES__AUTO_CREATE", "false", "instances.auto_create", False),
            ("HOOKGW_DELIVERY__TIMEOUT", "200ms", "delivery.timeout", 0.2),
            ("HOOKGW_DELIVERY__SCHEDULE", "[1s, 2s]", "delivery.schedule", (1, 2)),
            ("HOOKGW_DELIVERY__SCHEDULE", "[]", "delivery.schedule", ()),
            ("HOOKGW_DELIVERY__LANE_BUFFER", "5", "delivery.lane_buffer", 5),
            ("HOOKGW_SERVER__MAX_BODY", "2MiB", "server.max_body", 2**21),
            ("HOOKGW_PLUGINS__OPTIONS", "{a: {b: 1}}", "plugins.options", {"a": {"b": 1}}),
            ("HOOKGW_PLUGINS__OPTIONS__SIMULATOR__RATE", "5", "plugins.options", {"simulator": {"rate": 5}}),
        ],
    )
    def test_every_type_can_be_overridden(self, variable: str, text: str, path: str, value: object) -> None:
        section, key = path.split(".")
        assert getattr(getattr(load_settings(None, {variable: text}), section), key) == value

    def test_a_list_of_mappings_can_be_overridden(self) -> None:
        settings = load_settings(None, {"HOOKGW_GLOBAL_WEBHOOKS": "[{url: https://a, events: [X]}]"})
        assert settings.global_webhooks == ({"url": "https://a", "events": ["X"]},)

    def test_one_option_is_put_beside_those_of_the_file(self, file: Path) -> None:
        file.write_text("plugins:\n  options:\n    simulator: {rate: 1, size: 2}\n    other:\n")
        settings = load_settings(file, {"HOOKGW_PLUGINS__OPTIONS__SIMULATOR__RATE": "5"})
        assert settings.plugins.options == {"simulator": {"rate": 5, "size": 2}, "other": None}

    def test_a_broken_section_is_reported_once(self, file: Path) -> None:
        file.write_text("log: 5\n")
        assert messages(file, {"HOOKGW_LOG__LEVEL": "info"}) == (
            "log (hookgw.yaml, line 1): expected a mapping of keys, got 5.",
        )

    @pytest.mark.parametrize(
        "variable",
        [
            "HOOKGW_CONFIG",
            "HOOKGW_URL",
            "HOOKGW_PORT",
            "HOOKGW_PORT_8080_TCP_ADDR",
            "HOOKGW_SERVICE_HOST",
            "HOOKGW_SERVER_SERVICE_HOST",
            "HOOKGW_",
            "HOOKGW",
            "hookgw_log__level",
            "XHOOKGW_LOG__LEVEL",
        ],
    )
    def test_other_variables_are_left_alone(self, variable: str) -> None:
        assert load_settings(None, {variable: "tcp://10.0.0.1:8080"}) == Settings()

    @pytest.mark.parametrize(
        ("variable", "hint"),
        [
            ("HOOKGW_LOG__LEVL", " Did you mean HOOKGW_LOG__LEVEL?"),
            ("HOOKGW_LOG_LEVEL", " Did you mean HOOKGW_LOG__LEVEL?"),
            ("HOOKGW_AUTH_GLOBAL_KEY", " Did you mean HOOKGW_AUTH__GLOBAL_KEY?"),
            ("HOOKGW_LOG", " Did you mean HOOKGW_LOG__FORMAT?"),
            ("HOOKGW_SERVER__BIND__0", " Did you mean HOOKGW_SERVER__BIND?"),
            ("HOOKGW_Q__Q", ""),
        ],
    )
    def test_a_misspelled_override_is_refused(self, variable: str, hint: str) -> None:
        assert messages(None, {variable: "x"}) == (f"{variable}: this variable overrides no key.{hint}",)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("[::1]:80", "this is not YAML: "),
            ("[a:1, a:1]", "a:1 appears twice: keep one."),
            ("null", "expected a list, each item text, got null."),
            ("{a: 1}", "expected text, got a mapping."),
        ],
    )
    def test_a_wrong_value_names_the_key_and_the_variable(self, text: str, sentence: str) -> None:
        (message,) = messages(None, {"HOOKGW_SERVER__BIND": text})
        assert message.startswith("server.bind")
        assert f"(HOOKGW_SERVER__BIND): {sentence}" in message

    def test_the_name_of_a_variable_follows_from_the_path(self) -> None:
        assert variable_of("server.bind") == "HOOKGW_SERVER__BIND"
        assert variable_of("global_webhooks") == "HOOKGW_GLOBAL_WEBHOOKS"


class TestGlobalKey:
    @pytest.mark.parametrize(
        ("content", "environ", "key"),
        [
            ("", {}, None),
            ("", {"HOOKGW_GLOBAL_KEY": ""}, None),
            ("", {"HOOKGW_GLOBAL_KEY": "abc"}, "abc"),
            ('auth: {global_key: ""}', {}, None),
            ('auth: {global_key: "file"}', {"HOOKGW_GLOBAL_KEY": "abc"}, "file"),
            ('auth: {global_key: "${HOOKGW_GLOBAL_KEY}"}', {}, None),
            ('auth: {global_key: "${HOOKGW_GLOBAL_KEY:-}"}', {}, None),
            ('auth: {global_key: "${HOOKGW_GLOBAL_KEY}"}', {"HOOKGW_GLOBAL_KEY": "123"}, "123"),
            ('auth: {global_key: "file"}', {"HOOKGW_AUTH__GLOBAL_KEY": "over"}, "over"),
            ("", {"HOOKGW_AUTH__GLOBAL_KEY": "over", "HOOKGW_GLOBAL_KEY": "abc"}, "over"),
        ],
    )
    def test_which_key_holds(
        self, file: Path, content: str, environ: dict[str, str], key: str | None
    ) -> None:
        file.write_text(content)
        assert load_settings(file, environ).auth.global_key == key

    def test_a_wrong_key_from_the_environment_is_refused_and_not_shown(self) -> None:
        (message,) = messages(None, {"HOOKGW_GLOBAL_KEY": "hunter 2"})
        assert message == (
            "auth.global_key (HOOKGW_GLOBAL_KEY): a key is at most 255 visible ASCII characters "
            "without spaces, because a header carries it."
        )


class TestMasterKey:
    KEY, OTHER = "A" * 43 + "=", "B" * 42 + "A="

    @pytest.mark.parametrize(
        ("content", "environ", "key"),
        [
            ("", {}, None),
            ("", {"HOOKGW_MASTER_KEY": ""}, None),
            ("", {"HOOKGW_MASTER_KEY": KEY}, KEY),
            ("storage: {master_key: ''}", {}, None),
            (f"storage: {{master_key: {OTHER}}}", {"HOOKGW_MASTER_KEY": KEY}, OTHER),
            ('storage: {master_key: "${HOOKGW_MASTER_KEY}"}', {}, None),
            ('storage: {master_key: "${HOOKGW_MASTER_KEY:-}"}', {"HOOKGW_MASTER_KEY": KEY}, KEY),
            ("storage: {master_key_file: /run/key}", {"HOOKGW_MASTER_KEY": KEY}, None),
            ("", {"HOOKGW_STORAGE__MASTER_KEY": OTHER, "HOOKGW_MASTER_KEY": KEY}, OTHER),
            ("storage: {master_key: clear}", {}, "clear"),
        ],
    )
    def test_which_key_holds(
        self, file: Path, content: str, environ: dict[str, str], key: str | None
    ) -> None:
        file.write_text(content)
        assert load_settings(file, environ).storage.master_key == key

    @pytest.mark.parametrize(
        ("environ", "place"),
        [
            ({"HOOKGW_MASTER_KEY": "hunter2"}, "storage.master_key (HOOKGW_MASTER_KEY)"),
            (
                {"HOOKGW_STORAGE__OLD_MASTER_KEYS": f"['', {KEY}, hunter2]"},
                "storage.old_master_keys[2] (HOOKGW_STORAGE__OLD_MASTER_KEYS)",
            ),
        ],
    )
    def test_malformed_keys_are_refused_and_not_shown(self, environ: dict[str, str], place: str) -> None:
        (message,) = messages(None, environ)
        assert (
            message == f"{place}: a master key is the base64 of 32 bytes: create one with hookgw master-key."
        )

    def test_one_key_and_not_two(self, file: Path) -> None:
        file.write_text(f"storage: {{master_key: {self.KEY}, master_key_file: /run/key}}")
        (message,) = messages(file, {})
        assert "keep one of them" in message


def test_a_reference_to_a_file_is_for_callers_that_read_files() -> None:
    def read(name: str) -> str:
        return f"<{name}>"

    assert expand("a ${file:b/c.txt} ${X}", {"X": "1"}, read) == "a <b/c.txt> 1"
    with pytest.raises(ValueError, match="names no variable"):
        expand("${file:b}", {})
