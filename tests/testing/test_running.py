"""A run of a connector in a unit test: it lasts for the block, and the next one continues."""

from hookgw import ConnectionState, Session
from hookgw.testing import FakeConnector, FakeSession, running


async def test_a_run_lasts_for_the_block_and_may_be_repeated() -> None:
    connector, session = FakeConnector(), FakeSession()
    for runs in (1, 2):
        async with running(connector, session):
            assert session.state is ConnectionState.OPEN
            assert connector.session("shop") is session
            assert connector.runs == runs


async def test_a_run_may_begin_with_another_state() -> None:
    async def refuse(session: Session) -> None:
        await session.set_state(ConnectionState.CLOSE, 401)

    session = FakeSession()
    async with running(FakeConnector(script=refuse), session, ConnectionState.CLOSE):
        assert session.states == [(ConnectionState.CLOSE, 401, {})]
