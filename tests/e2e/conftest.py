from collections.abc import Iterator

import pytest

from tests.support.gateway_process import ReceiverProcess, Server, receiving, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway shared by the tests of a module. Each test uses its own instances."""
    with serving(tmp_path_factory.mktemp("gateway")) as server:
        yield server
        assert server.process.stop() == 0


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    """A receiver shared by the tests of a module. Each test uses its own paths."""
    with receiving(tmp_path_factory.mktemp("receiver")) as receiver:
        yield receiver
