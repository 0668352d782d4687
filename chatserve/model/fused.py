"""The fused decoder as a loaded model: its weights, its angles, and the operations of its device."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass

import torch

from chatserve.model.decoder import Angles, Decoder
from chatserve.model.decoder_shape import DecoderShape
from chatserve.model.decoder_single import ByRows, SingleDecoder
from chatserve.model.decoder_weights import DecoderWeights, empty_weights, named_tensors
from chatserve.model.description import Config
from chatserve.model.ops import MatvecOps, Ops
from chatserve.model.ops_torch import TorchMatvecs, TorchOps
from chatserve.model.rope import rope_tables
from chatserve.model.step import Network
from chatserve.model.tensor_sources import Progress, TensorSource

log = logging.getLogger(__name__)

TRITON = ("chatserve.model.ops_triton", "chatserve.model.product_triton", "chatserve.model.matvec_triton")
"""Imported by name, because Triton is not installed everywhere."""


@dataclass(frozen=True, slots=True)
class DeviceOps:
    """What computes the layers of many rows, and what computes the products of a single row."""

    ops: Ops
    products: MatvecOps


@dataclass(frozen=True, slots=True)
class FusedWeights:
    """See Weights."""

    weights: DecoderWeights
    angles: Angles
    device_ops: DeviceOps

    def over(self, kv: torch.Tensor) -> Network:
        """See Weights."""
        ops, products = self.device_ops.ops, self.device_ops.products
        many = Decoder(self.weights, self.angles, ops, kv)
        if not SingleDecoder.computes(self.weights):
            return many
        return ByRows(SingleDecoder(self.weights, self.angles, ops, products, kv), many)


def fuse(
    config: Config,
    shape: DecoderShape,
    tensors: TensorSource,
    *,
    dtype: torch.dtype,
    device: torch.device,
    max_len: int,
    progress: Progress,
) -> FusedWeights:
    """Read a model of this shape onto its device. Raises IncompleteModel."""
    weights = empty_weights(shape, dtype, device)
    with torch.no_grad():
        tensors.fill(named_tensors(weights), progress)
    return FusedWeights(weights, Angles(*rope_tables(config, max_len, device)), ops_for(device))


def ops_for(device: torch.device) -> DeviceOps:
    """Triton's on CUDA, where Triton is; else torch's."""
    if device.type == "cuda":
        try:
            ops, products, matvecs = (importlib.import_module(name) for name in TRITON)
        except ImportError as error:
            log.warning("the fused decoder goes without its Triton kernels: %s", error)
        else:
            return DeviceOps(ops.TritonOps(products.TritonProducts(device)), matvecs.TritonMatvecs())
    return DeviceOps(TorchOps(), TorchMatvecs())
