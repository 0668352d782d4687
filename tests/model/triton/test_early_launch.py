"""Kernels that start while the ones before them end compute what they compute one after the other, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from chatserve.model.attention_decode import DecodeKernel
from chatserve.model.attention_mixed import DecodeStep
from chatserve.model.decoder import Angles
from chatserve.model.decoder_shape import DecoderShape
from chatserve.model.decoder_weights import empty_weights, named_tensors
from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.early_launch import launch_options
from chatserve.model.fused import DeviceOps, FusedWeights
from chatserve.model.matvec_triton import TritonMatvecs
from chatserve.model.ops_triton import TritonOps
from chatserve.model.product_triton import TritonProducts
from chatserve.model.step import StepRows

SHAPE = DecoderShape(
    layers=6,
    hidden=1024,
    inter=3072,
    heads=16,
    kv_heads=4,
    head_dim=128,
    vocab=8192,
    eps=1e-5,
    tied=False,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    head_norms=False,
    spread=0.02,
)
CONTEXT = 700


def test_on_the_cpu_nothing_starts_early() -> None:
    assert launch_options(True, torch.device("cpu")) == {"EARLY": False}


@pytest.mark.gpu
def test_on_a_gpu_it_can_be_forbidden() -> None:
    device = torch.device("cuda")
    assert launch_options(False, device) == {"EARLY": False}
    early = torch.cuda.get_device_capability() >= (9, 0)
    assert launch_options(True, device).get("launch_pdl", False) == early


class Steps:
    """A decode step of random weights and a random past; the first tokens' K and V are the same in each step."""

    def __init__(self, rows: int) -> None:
        self.device = torch.device("cuda")
        self.weights = empty_weights(SHAPE, torch.bfloat16, self.device)
        for tensor in named_tensors(self.weights).values():
            tensor.normal_(0.0, 0.05)
        shape = (rows, CONTEXT, SHAPE.layers, 2, SHAPE.kv_heads, SHAPE.head_dim)
        self.kv = torch.randn(shape, device=self.device).bfloat16()
        angles = torch.rand(CONTEXT, SHAPE.head_dim // 2, device=self.device) * 6
        self.angles = Angles(angles.cos(), angles.sin())
        numbers = torch.arange(rows, device=self.device)
        self.rows = StepRows(numbers, CONTEXT - 1 - numbers, numbers.flip(0))
        self.temperatures = torch.full((rows,), 0.8, device=self.device)

    def step(self, early: bool) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
        """-> logits, tokens."""
        rows, count = self.rows, len(self.kv)
        ops = TritonOps(TritonProducts(self.device, early=early), early=early)
        fused = FusedWeights(self.weights, self.angles, DeviceOps(ops, TritonMatvecs(early=early)))
        network = fused.over(self.kv)
        kernel = DecodeKernel(self.kv, SHAPE.heads, most_rows=count, early=early)
        space = DrawWorkspace.of(count, SHAPE.vocab, self.device, early=early)
        newest = torch.zeros(count, dtype=torch.int64, device=self.device)

        def compute() -> tuple[torch.Tensor, torch.Tensor]:
            attention = DecodeStep(kernel, kernel.plan(rows.slots, rows.positions + 1))
            logits = network.logits(rows, attention, None)
            return logits, draw_tokens(logits, self.temperatures, rows.slots, rows.slots, newest, space)

        return compute


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 2, 24, 64, 130])
@torch.inference_mode()
def test_a_captured_step_is_the_same_to_the_last_bit(rows: int) -> None:
    steps = Steps(rows)
    expected = [each.clone() for each in steps.step(early=False)()]
    early = steps.step(early=True)
    early()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = early()
    for _ in range(50):
        graph.replay()
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
