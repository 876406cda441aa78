"""Run the stand-in for Meta as a process: ``python -m tests.networks.whatsapp_cloud --port 9500``.

Then let somebody write to the number::

    curl 127.0.0.1:9500/verify -d '{"url": "<ingestUrl>", "verify_token": "the verify token of the tests"}'
    curl 127.0.0.1:9500/write -d '{"url": "<ingestUrl>", "from": "16505551234", "text": "Are you open?"}'
"""

import argparse

import trio

from tests.networks.whatsapp_cloud.graph import APP, NUMBER, SECRET, TOKEN, WABA, Graph
from tests.networks.whatsapp_cloud.server import running_server
from tests.networks.whatsapp_cloud.webhooks import VERIFY_TOKEN


async def main(port: int) -> None:
    """Serve until the process is ended."""
    async with running_server(Graph(), port=port) as (_, url):
        print(f"a stand-in for Meta at {url}", flush=True)
        print(f"phone_number_id {NUMBER}, access_token {TOKEN}", flush=True)
        print(f"app_secret {SECRET!r}, verify_token {VERIFY_TOKEN!r}", flush=True)
        print(f"app {APP}, WhatsApp Business Account {WABA}", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9500)
    trio.run(main, parser.parse_args().port)
