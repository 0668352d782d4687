"""A shape of `shapes.py` as Locust has them."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from locust import LoadTestShape

from loadtest.users.shapes import users_at


class NamedShape(LoadTestShape):
    """The peak is --users, the whole time --run-time."""

    use_common_options = True

    def __init__(self, name: str, users: int, seconds: float) -> None:
        super().__init__()
        self._name = name
        self._users = users
        self._seconds = seconds

    def tick(self) -> tuple[int, float] | None:
        """Users now, and how many may come or go in a second; None at the end."""
        users = users_at(self._name, self.get_run_time() / self._seconds, self._users)
        return None if users is None else (users, float(self._users))
