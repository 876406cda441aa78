"""The log: one line per event, in the configured format, without secrets."""

import io
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import hypercorn.config
import msgspec
import pytest
import structlog

from hookgw import Registration
from tests.public.command import MASK, configure_logging, mask_secrets, mask_text
from tests.public.config import LogSettings
from tests.public.kernel import Secret
from tests.support.logs import log_kept

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the logging of the process."""
    with log_kept():
        yield


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream() -> io.StringIO:
    """A stream that gets JSON lines of every level."""
    target = io.StringIO()
    configure_logging(LogSettings(format="json", level="debug"), target)
    return target


def masked(**values: Any) -> Any:
    return mask_secrets(None, "info", dict(values))


class TestFormat:
    def test_json_is_one_object_a_line(self, stream: io.StringIO) -> None:
        structlog.get_logger("hookgw.lane").bind(lane="https://a/x").info(
            "Delivered.", delivery="dlv_5", status=200
        )
        (line,) = logged(stream)
        timestamp = line.pop("timestamp")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", timestamp)
        assert line == {
            "event": "Delivered.",
            "level": "info",
            "logger": "hookgw.lane",
            "lane": "https://a/x",
            "delivery": "dlv_5",
            "status": 200,
        }

    def test_an_exception_stays_on_its_line(self, stream: io.StringIO) -> None:
        try:
            raise ValueError("nothing")
        except ValueError:
            structlog.get_logger("hookgw").exception("It failed.")
        (line,) = logged(stream)
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("ValueError: nothing")

    @pytest.mark.parametrize(
        ("form", "stream", "text"),
        [
            ("auto", io.StringIO(), False),
            ("auto", Terminal(), True),
            ("text", io.StringIO(), True),
            ("json", Terminal(), False),
        ],
    )
    def test_the_format_follows_the_setting_or_the_terminal(
        self, form: Any, stream: io.StringIO, text: bool
    ) -> None:
        configure_logging(LogSettings(format=form), stream)
        structlog.get_logger("hookgw").info("Hello.")
        assert stream.getvalue().startswith("{") is not text

    @pytest.mark.parametrize("form", ["auto", "text"])
    def test_the_journal_gets_the_level_of_each_line(
        self, form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lines(name: str, journal: str) -> list[str]:
            with (tmp_path / name).open("w+") as stream:
                found = os.fstat(stream.fileno())
                monkeypatch.setenv("JOURNAL_STREAM", journal.format(found.st_dev, found.st_ino))
                configure_logging(LogSettings(format=form, level="debug"), stream)
                for level in ("debug", "info", "warning", "critical"):
                    structlog.get_logger("hookgw").log(
                        logging.getLevelNamesMapping()[level.upper()], "Hello."
                    )
                logging.getLogger("other").error("It failed.", exc_info=ValueError("x"))
                return (tmp_path / name).read_text().splitlines()

        written = lines("journal", "{}:{}")
        assert [line[:3] for line in written[:5]] == ["<7>", "<6>", "<4>", "<2>", "<3>"]
        assert {line[:3] for line in written[4:]} == {"<3>"}
        # A file, or a pipe to another program, that stands in the journal's place.
        assert not any(line.startswith("<") for line in lines("file", "{}:1"))
        assert not any(line.startswith("<") for line in lines("other", "what"))

    def test_colour_only_on_a_terminal_without_no_color(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def colour(stream: io.StringIO) -> bool:
            configure_logging(LogSettings(format="text"), stream)
            structlog.get_logger("hookgw").info("Hello.", name="x")
            return "\x1b[" in stream.getvalue()

        monkeypatch.delenv("NO_COLOR", raising=False)
        assert colour(Terminal())
        assert not colour(io.StringIO())
        monkeypatch.setenv("NO_COLOR", "1")
        assert not colour(Terminal())

    def test_text_shows_no_local_variables(self) -> None:
        stream = io.StringIO()
        configure_logging(LogSettings(format="text"), stream)
        try:
            key = "hunter2"
            raise ValueError(len(key))
        except ValueError:
            structlog.get_logger("hookgw").exception("It failed.")
        assert "Traceback" in stream.getvalue()
        assert "hunter2" not in stream.getvalue().replace('key = "hunter2"', "")

    def test_standard_error_is_the_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging(LogSettings(format="json"))
        structlog.get_logger("hookgw").info("Hello.")
        output = capsys.readouterr()
        assert output.out == ""
        assert '"event": "Hello."' in output.err

    def test_lines_contain_what_is_bound_to_the_task(self, stream: io.StringIO) -> None:
        with structlog.contextvars.bound_contextvars(instance="loja1"):
            structlog.get_logger("hookgw").info("Hello.")
            logging.getLogger("other").info("Hello.")
        assert [line["instance"] for line in logged(stream)] == ["loja1", "loja1"]


class TestLevels:
    @pytest.mark.parametrize(
        ("level", "shown"),
        [
            ("debug", ["debug", "info", "warning", "error"]),
            ("info", ["info", "warning", "error"]),
            ("warning", ["warning", "error"]),
            ("error", ["error"]),
        ],
    )
    def test_lines_below_the_level_are_left_out(self, level: Any, shown: list[str]) -> None:
        stream = io.StringIO()
        configure_logging(LogSettings(format="json", level=level), stream)
        for logger in (structlog.get_logger("hookgw"), logging.getLogger("hypercorn.error")):
            for method in ("debug", "info", "warning", "error"):
                getattr(logger, method)("Hello.")
        assert [line["level"] for line in logged(stream)] == shown * 2

    def test_libraries_that_log_each_request_only_warn(self, stream: io.StringIO) -> None:
        logging.getLogger("httpx").info("HTTP Request: POST https://a")
        logging.getLogger("httpcore.connection").debug("connect_tcp.started")
        logging.getLogger("mcp.server.streamable_http").info("Terminating session: None")
        logging.getLogger("httpx").warning("Odd.")
        assert [line["event"] for line in logged(stream)] == ["Odd."]

    def test_the_driver_of_the_database_does_not_repeat_what_hookgw_reports(
        self, stream: io.StringIO
    ) -> None:
        logging.getLogger("psycopg").warning("error ignored terminating %r: the connection is lost", self)
        assert logged(stream) == []

    def test_connections_that_cannot_be_accepted_are_one_line_a_minute(self, stream: io.StringIO) -> None:
        for number in range(3):
            try:
                raise OSError(number)
            except OSError:
                logging.getLogger("trio.serve_listeners").exception("accept returned EMFILE")
        (line,) = logged(stream)
        assert (line["event"], line.get("exception")) == ("accept returned EMFILE", None)


class TestOneHandler:
    def test_lines_of_the_standard_library_use_the_same_handler(self, stream: io.StringIO) -> None:
        logging.getLogger("quart.app").warning("Slow %s", "request", extra={"password": "x", "path": "/y"})
        (line,) = logged(stream)
        assert (line["event"], line["logger"], line["level"]) == ("Slow request", "quart.app", "warning")
        assert (line["password"], line["path"]) == (MASK, "/y")

    def test_a_second_configuration_duplicates_no_line(self) -> None:
        first, second = io.StringIO(), io.StringIO()
        configure_logging(LogSettings(format="json"), first)
        configure_logging(LogSettings(format="json"), second)
        structlog.get_logger("hookgw").info("Hello.")
        logging.getLogger("other").info("Hello.")
        assert first.getvalue() == ""
        assert len(logged(second)) == 2

    async def test_hypercorn_logs_each_line_once(
        self, stream: io.StringIO, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """By default, hypercorn attaches its own handler and also propagates."""
        config = hypercorn.config.Config()
        config.errorlog = logging.getLogger("hypercorn.error")
        await config.log.info("Running on %s", "http://127.0.0.1:1")
        assert [line["event"] for line in logged(stream)] == ["Running on http://127.0.0.1:1"]
        assert capsys.readouterr() == ("", "")

    def test_warnings_are_lines_too(self, stream: io.StringIO) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(capture=False)
            logging.captureWarnings(capture=True)
            warnings.warn("Old.", UserWarning, stacklevel=1)
            logging.captureWarnings(capture=False)
        (line,) = logged(stream)
        assert (line["logger"], line["level"]) == ("py.warnings", "warning")
        assert "UserWarning: Old." in line["event"]


class TestSecrets:
    @pytest.mark.parametrize(
        "key",
        [
            *("apikey", "apiKey", "API_KEY", "Authorization", "proxy-authorization", "secret", "secrets"),
            *("headers", "token", "password", "jwt_key", "global_key", "Set-Cookie", "cookie", "hash"),
        ],
    )
    @pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"x": "hunter2"}, 12345, b"hunter2"])
    def test_values_of_secret_keys_are_masked(self, key: str, value: Any) -> None:
        assert masked(**{key: value}) == {key: MASK}
        assert masked(inner=[{key: value}]) == {"inner": [{key: MASK}]}

    @pytest.mark.parametrize("value", [None, "", {}, []])
    def test_empty_values_are_shown(self, value: Any) -> None:
        assert masked(token=value) == {"token": value}

    @pytest.mark.parametrize(
        ("text", "clean"),
        [
            (f"key {SECRET}, and", f"key whsec_{MASK}, and"),
            ("https://user:pass@example.org/x", f"https://{MASK}@example.org/x"),
            ("https://user@example.org", f"https://{MASK}@example.org"),
            ("https://a:p@ss@example.org/x?q=@", f"https://{MASK}@example.org/x?q=@"),
            ("https://example.org/a@b", "https://example.org/a@b"),
            ("Authorization: Bearer abc.def-1", f"Authorization: Bearer {MASK}"),
            ("{'authorization': 'Basic dXNlcjpwYXNz'}", f"{{'authorization': 'Basic {MASK}'}}"),
            ("authorization=abc", f"authorization={MASK}"),
            ("a bearer eyJhbGciOiJIUzI1NiJ9.e30.x", f"a bearer {MASK}"),
            ("Basic authentication, bearer tokens", "Basic authentication, bearer tokens"),
            ("GET /x?apikey=abc&y=1", f"GET /x?apikey={MASK}&y=1"),
            ("GET /x?y=1&token=abc#z", f"GET /x?y=1&token={MASK}#z"),
            ("nothing to hide", "nothing to hide"),
        ],
    )
    def test_secrets_in_texts_are_masked(self, text: str, clean: str) -> None:
        assert mask_text(text) == clean
        assert masked(x=text) == {"x": clean}
        assert masked(x={text: (text,)}) == {"x": {clean: [clean]}}

    def test_records_are_written_without_secrets(self) -> None:
        registration = Registration(
            id="reg_1",
            instance="loja1",
            url="https://user:pass@example.org",
            headers={"x": "hunter2"},
            secrets=(Secret(SECRET),),
        )
        shown = masked(registration=registration)["registration"]
        assert shown["url"] == f"https://{MASK}@example.org"
        assert shown["headers"] == shown["secrets"] == MASK
        assert shown["id"] == "reg_1"

    def test_other_values_are_written_as_text_without_secrets(self) -> None:
        assert masked(x=ValueError(SECRET)) == {"x": f"ValueError('whsec_{MASK}')"}
        assert masked(x=b"a") == {"x": "b'a'"}
        assert masked(a=None, b=True, c=5, d=0.5) == {"a": None, "b": True, "c": 5, "d": 0.5}

    def test_endless_nesting_is_cut(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert "…" in str(masked(x=loop))

    def test_no_logger_writes_a_secret(self, stream: io.StringIO) -> None:
        try:
            raise ValueError(f"refused {SECRET}")
        except ValueError:
            structlog.get_logger("hookgw").bind(secret=SECRET).exception(
                f"No {SECRET}.", url=f"https://{SECRET}@a"
            )
            logging.getLogger("other").exception("No %s.", SECRET)
        assert len(logged(stream)) == 2
        assert SECRET not in stream.getvalue()

    def test_control_characters_are_escaped(self) -> None:
        assert mask_text("a\x1b[2Jb\rc\x00d\x9be\udc80f\n\tg") == "a\\x1b[2Jb\\rc\\x00d\\x9be\\udc80f\n\tg"
        assert mask_text("Olá 😀 \u202eb\u2066c\u2028d") == "Olá 😀 \\u202eb\\u2066c\\u2028d"

    @pytest.mark.parametrize("log_format", ["text", "json"])
    def test_no_value_begins_a_line(self, log_format: Literal["text", "json"]) -> None:
        stream = io.StringIO()
        with log_kept():
            configure_logging(LogSettings(format=log_format), stream)
            forged = "x\nFORGED: all is well"
            try:
                raise ValueError("an error has its traceback below the line")
            except ValueError:
                structlog.get_logger("hookgw").exception(forged, reason=forged, deep={forged: [forged]})
            logging.getLogger("other").warning(forged)
        assert not any(line.startswith("FORGED") for line in stream.getvalue().splitlines())
        assert len(stream.getvalue().splitlines()) == (2 if log_format == "json" else 6)


def test_importing_is_cheap() -> None:
    """Only configure_logging imports structlog."""
    check = "import sys, hookgw.command.logging_setup; sys.exit('structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False, timeout=30).returncode == 0
