from tests.cli.conftest import Invoke
from tests.public.config import parse_master_key


async def test_a_new_key_each_time(invoke: Invoke) -> None:
    first, second = [(await invoke("master-key")).stdout.strip() for _ in range(2)]
    assert first != second
    assert len(parse_master_key(first)) == 32
