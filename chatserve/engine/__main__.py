"""The engine's process: `python -m chatserve.engine`, its settings on the first line of standard input."""

from __future__ import annotations

import logging
import sys

import msgspec

from chatserve.engine.process import run_engine
from chatserve.engine.settings import Start
from chatserve.model.errors import ModelError
from vtensor.driver.base import DriverError

REFUSED = 3
"""Exit status when the model or the device cannot be used; starting again would not help."""


def main() -> int:
    """Exit status of the process."""
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
        start = msgspec.json.decode(unbuffered.readline(), type=Start)
    logging.basicConfig(level=start.log_level, format="%(levelname)s engine: %(message)s", stream=sys.stderr)
    try:
        run_engine(start)
    except (ModelError, DriverError) as error:
        logging.getLogger(__name__).error("%s", error)
        return REFUSED
    return 0


sys.exit(main())
