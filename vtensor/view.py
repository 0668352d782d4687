"""The arena as one strided torch tensor, made without touching the memory, most of which is not mapped.

DLPack carries an address, a shape and strides as they are; nothing looks behind them.
"""

from __future__ import annotations

import ctypes
from typing import Final

import torch
import torch.utils.dlpack

from vtensor.driver.base import Address
from vtensor.layout import KVLayout

NAME: Final = b"dltensor"
TYPES: Final = {torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float64: (2, 64)}
"""DLPack's type code and bits."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


def arena_view(
    layout: KVLayout, arena: Address, *, slots: int, dtype: torch.dtype, device: tuple[int, int]
) -> torch.Tensor:
    """[slots, rows, layers, 2, kv_heads, head_dim] over the arena's addresses.

    device: as the driver's `dlpack_device`. A row may be read or written where it is mapped, and only there. The view
    owns nothing: it must not be used after the manager is closed.
    """
    code, bits = TYPES[dtype]
    assert bits == 8 * layout.itemsize, f"{dtype} does not have the layout's {layout.itemsize} bytes"
    shape, strides = layout.shape(slots), layout.strides()
    dims = ctypes.c_int64 * len(shape)
    tensor = _Tensor(arena, *device, len(shape), code, bits, 1, dims(*shape), dims(*strides), 0)
    managed = _Managed(tensor, None, None)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new_capsule.restype = ctypes.py_object
    # The last view to die still reads `managed` (to find that there is nothing to free), so it never goes.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(managed))
    view: torch.Tensor = torch.utils.dlpack.from_dlpack(new_capsule(ctypes.addressof(managed), NAME, None))
    return view
