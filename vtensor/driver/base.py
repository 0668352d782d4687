"""What a driver of virtual memory can do: the only door to memory-mapping calls (vTensor paper, section 5.3).

A driver is used by one thread at a time. Each call does its whole work or raises and leaves things as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol

Address = NewType("Address", int)
Handle = NewType("Handle", int)


class DriverError(Exception):
    """A memory call failed; the message names the call and what it was asked for."""


class OutOfMemory(DriverError):
    """The device, or the system, has no memory (or no mappings) left for this call."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of the whole device, and those that no program has."""

    total: int
    free: int


class Fence(Protocol):
    """Work on the device that reads or writes memory: a step that was launched."""

    def done(self) -> bool: ...

    def wait(self) -> None: ...


class Passed:
    """The fence of work that is over."""

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        return None


class Driver(Protocol):
    """Reserve addresses, create chunks of memory, map the second at the first.

    Sizes are bytes, whole multiples of `granularity`. A handle is mapped as a whole or not at all, as often as liked.
    """

    @property
    def granularity(self) -> int: ...

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """Device type and index of a tensor over these addresses, as DLPack numbers them."""
        ...

    def bind_thread(self) -> None:
        """Called by a thread that will make calls; cheap."""
        ...

    def reserve(self, size: int) -> Address:
        """Addresses with nothing behind them: a touch is a fault."""
        ...

    def unreserve(self, address: Address, size: int) -> None: ...

    def create(self, size: int) -> Handle:
        """Physical memory. Raises OutOfMemory."""
        ...

    def release(self, handle: Handle, size: int) -> None:
        """Give the memory of a handle that is mapped nowhere back to the device."""
        ...

    def map(self, address: Address, size: int, *handles: Handle, writable: bool) -> None:
        """Handles of `size` bytes each, one behind the other. Raises OutOfMemory, with none of them mapped."""
        ...

    def unmap(self, address: Address, size: int) -> None:
        """All that is mapped there, whole handles."""
        ...

    def protect(self, address: Address, size: int, *, writable: bool) -> None:
        """Change what mapped handles allow at these addresses."""
        ...

    def copy(self, target: Address, source: Address, size: int) -> Fence:
        """Copy after the work launched so far, before the work launched next."""
        ...

    def clear(self, address: Address, size: int) -> Fence:
        """Make a handle that was just created, mapped writable here, read as zeros before any later work."""
        ...

    def free_bytes(self) -> int:
        """Memory the device or system could still give."""
        ...

    def device_memory(self) -> DeviceMemory | None:
        """What the device says of itself; None where it has no memory of its own to speak of. Cheap."""
        ...

    def close(self) -> None: ...
