"""Conversations over SSE, as many as you like, against any OpenAI-compatible server.

    locust -f loadtest/locustfile.py --host http://127.0.0.1:8000
    locust -f loadtest/locustfile.py --host ... --headless -u 20 -t 60s --shape steps --html load.html

loadtest/README.md says what the arguments and the numbers mean.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from locust import events

from loadtest.users.chat_user import ChatUser
from loadtest.users.knobs import add_arguments
from loadtest.users.run import prepare


class Conversations(ChatUser):
    """The one kind of user there is."""


events.init_command_line_parser.add_listener(add_arguments)
events.init.add_listener(prepare)
