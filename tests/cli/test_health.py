from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says


async def test_a_gateway_that_works(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"status": "ready"})
    result = await invoke("health")
    assert (result.exit_code, result.stdout) == (0, "ready\n")
    assert server.requests[0].target == "/readyz"


async def test_the_reason_why_it_does_not(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"status": 503, "response": {"message": ["The disk is full."]}}, 503)
    result = await invoke("health")
    assert result.exit_code == 1
    assert "The disk is full." in result.stderr


async def test_nobody_answers(invoke: Invoke) -> None:
    assert (await invoke("health", "--server", "http://127.0.0.1:9")).exit_code == 1
