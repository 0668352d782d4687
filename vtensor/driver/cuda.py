"""Virtual memory on an NVIDIA GPU: the driver API's cuMem* calls (vTensor paper, section 2.4).

A handle is mapped as a whole and its access is set handle by handle; both were measured to cost the same for 2 MB and
for 128 MB. The calls wait for nothing on the device, so it is the caller who unmaps only what no launched kernel still
reads.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakSet

from cuda.bindings import driver as cu

from vtensor.driver.base import Address, DeviceMemory, DriverError, Fence, Handle, OutOfMemory

K_DL_CUDA: Final = 2
FULL: Final = (cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY,)


class CudaEvent:
    """A point in a stream; passed when the device has got there."""

    def __init__(self, stream: int) -> None:
        flags = cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._event: cu.CUevent | None = None
        self._event = _checked(cu.cuEventCreate(flags), "cuEventCreate")
        _checked(cu.cuEventRecord(self._event, stream), "cuEventRecord")

    def done(self) -> bool:
        (result,) = cu.cuEventQuery(self._event)
        if result == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        _checked((result,), "cuEventQuery")
        return True

    def wait(self) -> None:
        _checked(cu.cuEventSynchronize(self._event), "cuEventSynchronize")

    def destroy(self) -> None:
        """Nothing may ask it afterwards. Once its context has gone this would be a crash."""
        if self._event is not None:
            cu.cuEventDestroy(self._event)
            self._event = None

    def __del__(self) -> None:
        self.destroy()


class CudaDriver:
    """One device, and the stream on which its model computes.

    stream: the raw handle of that stream; copies and clearing are queued on it, in order with the steps.
    """

    def __init__(self, device: int = 0, stream: int = 0) -> None:
        try:
            _checked(cu.cuInit(0), "cuInit")
        except RuntimeError as error:  # no libcuda on this machine
            raise DriverError(f"the CUDA driver cannot be used: {error}") from error
        self._device = device
        self._stream = cu.CUstream(stream)
        self._context = _checked(cu.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
        self._where = cu.CUmemLocation()
        self._where.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self._where.id = device
        self._kind = cu.CUmemAllocationProp()
        self._kind.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._kind.location = self._where
        self._access = {True: self._granting("READWRITE"), False: self._granting("READ")}
        self._reserved: dict[int, int] = {}
        self._events: WeakSet[CudaEvent] = WeakSet()
        self.bind_thread()
        recommended = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
        self._granularity = int(
            _checked(cu.cuMemGetAllocationGranularity(self._kind, recommended), "cuMemGetAllocationGranularity")
        )

    @property
    def granularity(self) -> int:
        return self._granularity

    @property
    def dlpack_device(self) -> tuple[int, int]:
        return K_DL_CUDA, self._device

    def bind_thread(self) -> None:
        _checked(cu.cuCtxSetCurrent(self._context), "cuCtxSetCurrent")

    def reserve(self, size: int) -> Address:
        address = int(_checked(cu.cuMemAddressReserve(size, 0, 0, 0), f"cuMemAddressReserve of {size} bytes"))
        self._reserved[address] = size
        return Address(address)

    def unreserve(self, address: Address, size: int) -> None:
        _checked(cu.cuMemAddressFree(address, size), f"cuMemAddressFree of {size} bytes")
        del self._reserved[address]

    def create(self, size: int) -> Handle:
        return Handle(int(_checked(cu.cuMemCreate(size, self._kind, 0), f"cuMemCreate of {size} bytes")))

    def release(self, handle: Handle, size: int) -> None:
        _checked(cu.cuMemRelease(handle), f"cuMemRelease of {size} bytes")

    def map(self, address: Address, size: int, *handles: Handle, writable: bool) -> None:
        mapped = 0
        try:
            for handle in handles:
                _checked(cu.cuMemMap(address + mapped, size, 0, handle, 0), f"cuMemMap of {size} bytes")
                mapped += size
            self.protect(address, mapped, writable=writable)  # once: it takes longer than all of the others
        except DriverError:
            if mapped:
                self.unmap(address, mapped)
            raise

    def unmap(self, address: Address, size: int) -> None:
        _checked(cu.cuMemUnmap(address, size), f"cuMemUnmap of {size} bytes")

    def protect(self, address: Address, size: int, *, writable: bool) -> None:
        access = self._access[writable]
        _checked(cu.cuMemSetAccess(address, size, [access], 1), f"cuMemSetAccess of {size} bytes")

    def copy(self, target: Address, source: Address, size: int) -> Fence:
        _checked(cu.cuMemcpyDtoDAsync(target, source, size, self._stream), f"cuMemcpyDtoDAsync of {size} bytes")
        return self._fence()

    def clear(self, address: Address, size: int) -> Fence:
        _checked(cu.cuMemsetD8Async(address, 0, size, self._stream), f"cuMemsetD8Async of {size} bytes")
        return self._fence()

    def free_bytes(self) -> int:
        return self.device_memory().free

    def device_memory(self) -> DeviceMemory:
        free, total = _checked(cu.cuMemGetInfo(), "cuMemGetInfo")
        return DeviceMemory(int(total), int(free))

    def close(self) -> None:
        for address, size in list(self._reserved.items()):
            self.unreserve(Address(address), size)
        for event in list(self._events):
            event.destroy()
        _checked(cu.cuDevicePrimaryCtxRelease(self._device), "cuDevicePrimaryCtxRelease")

    def _fence(self) -> Fence:
        """After what was queued so far."""
        event = CudaEvent(int(self._stream))
        self._events.add(event)
        return event

    def _granting(self, what: str) -> cu.CUmemAccessDesc:
        access = cu.CUmemAccessDesc()
        access.location = self._where
        access.flags = getattr(cu.CUmemAccess_flags, f"CU_MEM_ACCESS_FLAGS_PROT_{what}")
        return access


def _checked(returned: tuple[Any, ...], what: str) -> Any:
    """The values of a driver call, or the error it returned."""
    result, *values = returned
    if result != cu.CUresult.CUDA_SUCCESS:
        kind = OutOfMemory if result in FULL else DriverError
        raise kind(f"{what} failed: {result.name}")
    return values[0] if len(values) == 1 else tuple(values)
