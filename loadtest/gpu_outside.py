"""A GPU's memory as others see it, who might want it: from outside the process that uses it, without starting CUDA."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

QUERY = ("nvidia-smi", "--query-gpu=memory.free,memory.total", "--format=csv,noheader,nounits", "-i", "0")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes."""

    free: int
    total: int

    @property
    def free_share(self) -> float:
        return round(self.free / self.total, 4)


def memory_reader() -> Callable[[], DeviceMemory] | None:
    """How to look at the first GPU: NVML where its Python binding is, else nvidia-smi; None where there is no GPU."""
    if find_spec("pynvml") is not None:
        nvml = import_module("pynvml")
        try:
            nvml.nvmlInit()
            handle = nvml.nvmlDeviceGetHandleByIndex(0)
        except nvml.NVMLError:
            return None

        def read() -> DeviceMemory:
            found = nvml.nvmlDeviceGetMemoryInfo(handle)
            return DeviceMemory(free=int(found.free), total=int(found.total))

        return read
    return ask_smi if shutil.which(QUERY[0]) else None


def ask_smi() -> DeviceMemory:
    """A tenth of a second a look. Raises CalledProcessError without a device."""
    asked = subprocess.run(QUERY, capture_output=True, text=True, check=True)
    free, total = (int(each) << 20 for each in asked.stdout.split(","))
    return DeviceMemory(free=free, total=total)
