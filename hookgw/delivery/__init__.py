"""One delivery attempt: envelope, signature, request, and what the response means."""
