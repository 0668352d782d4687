"""A driver that passes every call to a real one and checks it against books of its own; it can be told to fail."""

from __future__ import annotations

from vtensor.driver.base import Address, DeviceMemory, Driver, Fence, Handle, OutOfMemory


class WatchedDriver:
    """fail_at: the number of the create, map, protect or copy call, counted from now, that raises OutOfMemory."""

    def __init__(self, real: Driver) -> None:
        self._real = real
        self.handles: dict[Handle, int] = {}
        self.mapped: dict[Address, Handle] = {}
        self.calls: list[str] = []
        self.fail_at: int | None = None

    @property
    def granularity(self) -> int:
        return self._real.granularity

    @property
    def dlpack_device(self) -> tuple[int, int]:
        return self._real.dlpack_device

    def bind_thread(self) -> None:
        self._real.bind_thread()

    def reserve(self, size: int) -> Address:
        return self._real.reserve(size)

    def unreserve(self, address: Address, size: int) -> None:
        assert not self.mapped, "addresses given back with memory mapped there"
        self._real.unreserve(address, size)

    def create(self, size: int) -> Handle:
        self._count("create")
        handle = self._real.create(size)
        assert handle not in self.handles
        self.handles[handle] = size
        return handle

    def release(self, handle: Handle, size: int) -> None:
        self.calls.append("release")
        assert handle not in self.mapped.values(), "a handle released while it is mapped"
        assert self.handles.pop(handle) == size
        self._real.release(handle, size)

    def map(self, address: Address, size: int, *handles: Handle, writable: bool) -> None:
        places = {Address(address + number * size): handle for number, handle in enumerate(handles)}
        for at, handle in places.items():
            self._count("map")
            assert at not in self.mapped, "mapped over another mapping"
            assert handle in self.handles, "mapping a handle that is not"
        self._real.map(address, size, *handles, writable=writable)
        self.mapped |= places

    def unmap(self, address: Address, size: int) -> None:
        self.calls.append("unmap")
        del self.mapped[address]
        self._real.unmap(address, size)

    def protect(self, address: Address, size: int, *, writable: bool) -> None:
        self._count("protect")
        assert address in self.mapped
        self._real.protect(address, size, writable=writable)

    def copy(self, target: Address, source: Address, size: int) -> Fence:
        self._count("copy")
        return self._real.copy(target, source, size)

    def clear(self, address: Address, size: int) -> Fence:
        assert address in self.mapped
        return self._real.clear(address, size)

    def free_bytes(self) -> int:
        return self._real.free_bytes()

    def device_memory(self) -> DeviceMemory | None:
        return self._real.device_memory()

    def close(self) -> None:
        self._real.close()

    @property
    def chunks(self) -> int:
        """Handles that are not the scratch slot's."""
        return len(self.handles) - 1

    def assert_nothing_left(self) -> None:
        assert not self.handles, "handles leaked"
        assert not self.mapped, "mappings leaked"

    def _count(self, call: str) -> None:
        self.calls.append(call)
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at == 0:
                self.fail_at = None
                raise OutOfMemory(f"{call} was told to fail")
