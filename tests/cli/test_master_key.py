from hookgw.config import parse_master_key
from tests.cli.conftest import Invoke


async def test_a_new_key_each_time(invoke: Invoke) -> None:
    first, second = [(await invoke("master-key")).stdout.strip() for _ in range(2)]
    assert first != second
    assert len(parse_master_key(first)) == 32
