"""Keeps what users wrote, and what they were answered, out of the logs of the libraries beneath."""

from __future__ import annotations

import logging
import traceback


class _PlacesOnly(logging.Filter):
    """Of an exception nobody foresaw, its type and where it happened: its message may quote anything."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, places = record.exc_info
            record.exc_info = None
            record.exc_text = "".join(traceback.format_tb(places)) + kind.__name__
        return True


_places_only = _PlacesOnly()


def keep_users_words_out_of_logs() -> None:
    """uvicorn would log each path, and exceptions in full; the others, at their most talkative, whatever they read."""
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    for library in ("markdown_it", "sse_starlette"):
        logging.getLogger(library).setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addFilter(_places_only)
