"""A fake Bot API server, written from Telegram's public documentation and the source of its server.

- https://core.telegram.org/bots/api (methods, objects, errors; "Getting updates", "setWebhook", "getFile")
- https://core.telegram.org/bots/webhooks (ports, what is posted, and the answers)
- https://github.com/tdlib/telegram-bot-api, ``Client.cpp`` (conflicts, texts of errors, which updates are
  kept) and ``WebhookActor.cpp`` (the order of webhooks, and when they are sent again)

``tests/networks/test_telegram.py`` proves it with a bot library that others wrote. As a process, for trying
things out by hand: ``python -m tests.networks.telegram --port 8081``.
"""
