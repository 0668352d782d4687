"""Drivers by name. The CUDA driver's module is imported only when it is asked for: the base install has no CUDA."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from vtensor.driver.base import Driver, DriverError

DRIVERS = {"host": ("vtensor.driver.host", "HostDriver"), "cuda": ("vtensor.driver.cuda", "CudaDriver")}


def open_driver(name: str, **arguments: int) -> Driver:
    """The driver of that name. Raises DriverError when there is none, or what it needs is not installed."""
    if name not in DRIVERS:
        raise DriverError(f"no driver is called {name!r}; there are {', '.join(DRIVERS)}")
    module, driver = DRIVERS[name]
    try:
        opened = getattr(import_module(module), driver)(**arguments)
    except ModuleNotFoundError as error:
        raise DriverError(f"the {name} driver needs {error.name}: pip install 'chatserve[{name}]'") from error
    return cast(Driver, opened)
