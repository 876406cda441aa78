"""The list of refused ports."""

import pytest

from tests.public.config import REFUSED_PORTS


def test_the_list_is_in_order_and_of_ports() -> None:
    assert list(REFUSED_PORTS) == sorted(REFUSED_PORTS)
    assert all(1 <= port <= 65535 for port in REFUSED_PORTS)


@pytest.mark.parametrize("port", [22, 23, 25, 465, 587, 1433, 1521, 3306, 5432, 6379, 9200, 11211, 27017])
def test_shells_mail_and_databases_are_on_it(port: int) -> None:
    assert port in REFUSED_PORTS


@pytest.mark.parametrize("port", [80, 443, 3000, 5000, 5678, 8000, 8080, 8443, 9000])
def test_ports_of_receivers_are_not_on_it(port: int) -> None:
    assert port not in REFUSED_PORTS
