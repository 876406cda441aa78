"""From URL to guard: every spelling of a refused address is refused."""

from ipaddress import ip_address

import pytest

from tests.public.delivery import AddressGuard, Blocked, Dialer
from tests.public.kernel import parse_target

SPELLINGS = [
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0X7F.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://2130706433./",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[0:0:0:0:0:ffff:7f00:0001]/",
    "http://[::ffff:0:7f00:1]/",
    "http://[::7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2606:4700::5efe:7f00:1]/",
    "http://[::1]/",
    "http://[::]/",
    "http://0/",
    "http://0.0.0.0/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://user@127.0.0.1/",
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://127%2E0%2E0%2E1/",
    "http://%30x7f.1/",
    "HTTP://127.0.0.1/",
    "https://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xA9FEA9FE/",
    "http://[fd00:ec2::254]/",
]


@pytest.mark.parametrize("url", SPELLINGS)
async def test_no_spelling_of_a_refused_address_is_dialled(url: str) -> None:
    target = parse_target(url)
    ip_address(target.host)
    with pytest.raises(Blocked, match="is not dialled"):
        await Dialer(AddressGuard(), connect_timeout=5).dial(target.host, target.port)
