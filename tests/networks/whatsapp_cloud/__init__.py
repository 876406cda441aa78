"""A stand-in for Meta: the Graph API of WhatsApp's Cloud API, and the sender of its webhooks.

Each rule names the page of Meta's public documentation that it follows. Pages are below
https://developers.facebook.com/documentation/business-messaging/whatsapp/ unless a whole URL is given.
``pywa``, a client that Meta did not write either, is run against it in tests/networks/test_whatsapp_cloud.py.
"""
