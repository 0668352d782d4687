"""Virtual memory on the CPU: one memfd, its pages mapped wherever they are wanted.

Not a mock. Two addresses of one chunk are the same pages; a shared chunk is PROT_READ, so that a stray write is a
SIGSEGV; what is not mapped is PROT_NONE, so that a stray read is one too; and a released chunk is a hole punched in the
file: its pages are the system's again.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Final

from vtensor.driver.base import Address, DeviceMemory, DriverError, Fence, Handle, OutOfMemory, Passed

PROT_NONE: Final = 0
MAP_SHARED: Final = 0x01
MAP_PRIVATE: Final = 0x02
MAP_FIXED: Final = 0x10
MAP_ANONYMOUS: Final = 0x20
MAP_NORESERVE: Final = 0x4000
MAP_FAILED: Final = ctypes.c_void_p(-1).value
FALLOC_KEEP_SIZE: Final = 1
FALLOC_PUNCH_HOLE: Final = 2
K_DL_CPU: Final = 1
FULL: Final = (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    libc.mmap.argtypes = (pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, offset)
    libc.mmap.restype = pointer
    libc.munmap.argtypes = (pointer, size)
    libc.mprotect.argtypes = (pointer, size, ctypes.c_int)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, offset, offset)
    return libc


class HostDriver:
    """A handle is an offset in the memfd. Offsets of released handles are used again."""

    def __init__(self) -> None:
        self._libc = _libc()
        self._file = os.memfd_create("vtensor", os.MFD_CLOEXEC)
        self._end = 0
        self._holes: dict[int, list[int]] = {}
        self._reserved: dict[int, int] = {}

    @property
    def granularity(self) -> int:
        return mmap.PAGESIZE

    @property
    def dlpack_device(self) -> tuple[int, int]:
        return K_DL_CPU, 0

    def bind_thread(self) -> None:
        return None

    def reserve(self, size: int) -> Address:
        flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        address = self._mmap(None, size, PROT_NONE, flags, -1, 0)
        self._reserved[address] = size
        return Address(address)

    def unreserve(self, address: Address, size: int) -> None:
        self._check(self._libc.munmap(address, size), f"munmap of {size} bytes")
        del self._reserved[address]

    def create(self, size: int) -> Handle:
        holes = self._holes.get(size)
        offset = holes[-1] if holes else self._end
        self._check(self._libc.fallocate(self._file, 0, offset, size), f"fallocate of {size} bytes")
        if holes:
            holes.pop()
        else:
            self._end += size
        return Handle(offset)

    def release(self, handle: Handle, size: int) -> None:
        punch = FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE
        self._check(self._libc.fallocate(self._file, punch, handle, size), f"punching a hole of {size} bytes")
        self._holes.setdefault(size, []).append(handle)

    def map(self, address: Address, size: int, *handles: Handle, writable: bool) -> None:
        mapped, protection = 0, _protection(writable)
        try:
            for handle in handles:
                self._mmap(address + mapped, size, protection, MAP_SHARED | MAP_FIXED, self._file, handle)
                mapped += size
        except DriverError:
            if mapped:
                self.unmap(address, mapped)
            raise

    def unmap(self, address: Address, size: int) -> None:
        # A fresh PROT_NONE mapping over the old one: munmap would leave a gap that anybody's mmap could take.
        flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
        self._mmap(address, size, PROT_NONE, flags, -1, 0)

    def protect(self, address: Address, size: int, *, writable: bool) -> None:
        self._check(self._libc.mprotect(address, size, _protection(writable)), f"mprotect of {size} bytes")

    def copy(self, target: Address, source: Address, size: int) -> Fence:
        ctypes.memmove(target, source, size)
        return Passed()

    def clear(self, address: Address, size: int) -> Fence:  # noqa: ARG002
        # fallocate gave zeroed pages, and a hole reads as zeros again.
        return Passed()

    def free_bytes(self) -> int:
        """What the system could give without swapping, or the container's own limit where that is nearer."""
        meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(meminfo["MemAvailable"].split()[0]) * 1024
        cgroup = Path("/sys/fs/cgroup")
        try:
            limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
        except OSError:
            return available
        return available if limit == "max" else min(available, max(0, int(limit) - int(used)))

    def device_memory(self) -> DeviceMemory | None:
        """The system's memory is not a device's."""
        return None

    def close(self) -> None:
        for address, size in list(self._reserved.items()):
            self.unreserve(Address(address), size)
        os.close(self._file)

    def _mmap(self, address: int | None, size: int, protection: int, flags: int, file: int, offset: int) -> int:
        mapped = self._libc.mmap(address, size, protection, flags, file, offset)
        if mapped is None or mapped == MAP_FAILED:
            self._fail(f"mmap of {size} bytes")
        return int(mapped)

    def _check(self, result: int, what: str) -> None:
        if result != 0:
            self._fail(what)

    def _fail(self, what: str) -> None:
        code = ctypes.get_errno()
        kind = OutOfMemory if code in FULL else DriverError
        raise kind(f"{what} failed: {os.strerror(code)}")


def _protection(writable: bool) -> int:
    return mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
