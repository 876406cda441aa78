from pathlib import Path

import pytest
import trio

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

ACCEPTED = {"accepted": 1, "duplicates": 0, "ids": ["msg_1"]}


async def test_data_is_sent_byte_for_byte(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ACCEPTED, 202)
    data = '{"b": 1.0, "a": 123456789012345678901234567890}'
    result = await invoke("emit", "loja1", "MESSAGES_UPSERT", "--data", data, "--id", "evt-1")
    assert (result.exit_code, result.stdout) == (0, "Accepted 1, duplicates 0: msg_1\n")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/event/emit/loja1")
    assert request.body == b'{"event":"MESSAGES_UPSERT","data":' + data.encode() + b',"id":"evt-1"}'


async def test_without_data_the_payload_is_an_empty_object(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ACCEPTED, 202)
    await invoke("emit", "loja1", "CALL")
    assert server.requests[0].body == b'{"event":"CALL","data":{}}'


async def test_data_may_come_from_a_file_or_standard_input(
    invoke: Invoke, server: Receiver, tmp_path: Path
) -> None:
    server.default = says(ACCEPTED, 202)
    (tmp_path / "data.json").write_bytes('{"é": 1}'.encode())
    await invoke("emit", "loja1", "CALL", "--data", "@data.json")
    await invoke("emit", "loja1", "CALL", "--data", "-", input='{"stdin": 1}')
    assert [request.json["data"] for request in server.requests] == [{"é": 1}, {"stdin": 1}]


async def test_an_id_that_is_no_text_is_refused(invoke: Invoke, server: Receiver) -> None:
    result = await invoke("emit", "loja1", "CALL", "--id", "\udcff")
    assert (result.exit_code, server.requests) == (1, [])
    assert "an id or a cursor has characters that no request can have" in result.stderr


async def test_a_batch_is_sent_as_lines(invoke: Invoke, server: Receiver, tmp_path: Path) -> None:
    server.default = says({"accepted": 2, "duplicates": 1, "ids": ["a", "b", "c"]}, 202)
    lines = b'{"event": "CALL", "data": 1}\n{"event": "CALL", "data": 2}\n'
    (tmp_path / "batch.ndjson").write_bytes(lines)
    result = await invoke("emit", "loja1", "--batch", "batch.ndjson")
    await invoke("emit", "loja1", "--batch", "-", input=lines)
    assert result.stdout == "Accepted 2, duplicates 1\n"
    assert [request.body for request in server.requests] == [lines, lines]
    assert server.requests[0].header("content-type") == "application/x-ndjson"


async def test_json_is_the_response_itself(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ACCEPTED, 202)
    result = await invoke("emit", "loja1", "CALL", "--json")
    assert '"ids": [\n    "msg_1"\n  ]' in result.stdout


async def test_warnings_go_to_standard_error(invoke: Invoke, server: Receiver) -> None:
    server.default = says(ACCEPTED | {"warnings": ["data.key is missing"]}, 202)
    result = await invoke("emit", "loja1", "CALL")
    assert result.stderr == "Warning: data.key is missing\n"


async def test_an_error_of_the_gateway_exits_with_1(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"response": {"message": ["event: no known kind."]}}, 400)
    result = await invoke("emit", "loja1", "CAL")
    assert (result.exit_code, result.stderr) == (1, "Error: event: no known kind.\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Give either EVENT or --batch FILE."),
        (["CALL", "--batch", "-"], "Give either EVENT or --batch FILE."),
        (["--batch", "-", "--id", "x"], "--data and --id need EVENT"),
        (["--batch", "-", "--data", "{}"], "--data and --id need EVENT"),
        (["--batch", "none.ndjson"], "does not exist"),
        (["CALL", "--data", "{"], "this is not JSON"),
        (["CALL", "--data", '{}, "id": "x"'], "this is not JSON"),
        (["CALL", "--data", "{'a': 1}"], "Write \" as the quotation mark, not '."),
        (["CALL", "--data", "@utf16.json"], "this is not JSON: it is not UTF-8."),
        (["CALL", "--data", "@none.json"], "cannot read none.json: No such file"),
        (["CALL", "--data", "[" * 10_000 + "]" * 10_000], "nested too deep"),
        (["CALL", "--server", "nowhere"], "The address must be an http or https URL"),
    ],
)
async def test_misuse_ends_with_2_and_asks_nothing(
    invoke: Invoke, server: Receiver, args: list[str], said: str
) -> None:
    await trio.Path("utf16.json").write_text("{}", "utf-16")
    result = await invoke("emit", "loja1", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert server.requests == []
