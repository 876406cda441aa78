"""Sends the updates of bots to their webhooks, as ``WebhookActor.cpp`` does."""

import httpx
import trio

from tests.networks.telegram.bots import Bot

FIRST_DELAY = 1.0
LONGEST_DELAY = 120.0
_HEADER = "X-Telegram-Bot-Api-Secret-Token"


class WebhookSender:
    """Posts the updates of one bot while it has a webhook.

    Each chat has a queue of its own. The first update of a queue is sent again and again, until the answer is
    a 2xx; those behind it wait. ``max_connections`` queues are served at a time.

    Args:
        bot: the bot.
        http: makes the requests; the caller closes it.
        speed: how many times shorter the delays are than Telegram's.

    Attributes:
        answers: the status of each answer; 0 for none.
    """

    def __init__(self, bot: Bot, http: httpx.AsyncClient, speed: float = 1.0) -> None:
        self.answers: list[int] = []
        self._bot = bot
        self._http = http
        self._speed = speed
        self._ready_at: dict[int, tuple[float, float]] = {}

    async def run(self) -> None:
        """Send until cancelled. With one connection at a time, whatever the webhook allows."""
        bot = self._bot
        while True:
            queues: dict[int, tuple[int, dict[str, object]]] = {}
            for number, queue, content in bot.updates if bot.webhook else []:
                queues.setdefault(queue, (number, content))
            now = trio.current_time()
            due = {queue: self._ready_at.get(queue, (0.0, 0.0))[0] for queue in queues}
            ready = [queue for queue, at in due.items() if at <= now]
            if not ready:
                wait = min(due.values(), default=now + 3600) - now
                with trio.move_on_after(wait):
                    await bot.changed.wait()
                continue
            queue = ready[0]
            number, content = queues[queue]
            await self._send(queue, number, content)

    async def _send(self, queue: int, number: int, content: dict[str, object]) -> None:
        bot, webhook = self._bot, self._bot.webhook
        headers = {_HEADER: webhook["secret_token"]} if webhook["secret_token"] else {}
        status, reason, retry_after = 0, "Connection refused", 0.0
        try:
            answer = await self._http.post(webhook["url"], json=content, headers=headers)
        except httpx.HTTPError:
            pass
        else:
            status, reason = answer.status_code, f"Wrong response from the webhook: {answer.status_code}"
            retry_after = float(answer.headers.get("retry-after", 0))
        self.answers.append(status)
        if 200 <= status < 300:
            bot.updates = [update for update in bot.updates if update[0] != number]
            self._ready_at.pop(queue, None)
            return
        if bot.webhook is webhook:
            webhook |= {"last_error_date": 1_700_000_000 + len(self.answers), "last_error_message": reason}
        _, delay = self._ready_at.get(queue, (0.0, FIRST_DELAY / 2))
        delay = min(LONGEST_DELAY, delay * 2)
        self._ready_at[queue] = trio.current_time() + (retry_after or delay) / self._speed, delay
