"""Captured steps of prompts and decodes: what the same step gives when it is launched kernel by kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from chatserve.model.attention_fa3 import Fa3Kernel
from chatserve.model.batch import COMING, Batch
from chatserve.model.device_inputs import device_inputs
from chatserve.model.draw_triton import DrawWorkspace
from chatserve.model.graphs import Stage, capture_all
from chatserve.model.kernels import choose_kernels
from chatserve.model.turn_graphs import MOST_SEQUENCES, TurnGraphs
from tests.model.fused_tiny import fused
from tests.model.tiny import make_batch, tiny_config, tiny_module

pytestmark = pytest.mark.gpu
SLOTS, ROWS, SCRATCH = 8, 1024, 0
CLOSE = 3e-2
"""Sums in another order, rounded to bfloat16 in between."""
TEXT = [3 + 7 * index % 90 for index in range(900)]


class Rig:
    """One model, its prompt kernel, and graphs for 64 and 192 rows over one arena."""

    def __init__(self, slots: int = SLOTS) -> None:
        module = tiny_module(tiny_config("llama", head_dim=64, max_position_embeddings=ROWS))
        self.model = fused(module, device="cuda", dtype=torch.bfloat16, max_len=ROWS)
        spec = self.model.spec
        shape = (slots, ROWS, spec.layers, 2, spec.kv_heads, spec.head_dim)
        self.kv = torch.zeros(shape, dtype=torch.bfloat16, device="cuda")
        kernels = choose_kernels(self.kv, heads=spec.heads, chunk_tokens=256, most_rows=MOST_SEQUENCES)
        assert isinstance(kernels.prompts, Fa3Kernel)
        self.prompts = kernels.prompts
        self.network = self.model.weights.over(self.kv)
        self.newest = torch.zeros(slots, dtype=torch.int64, device="cuda")
        workspace = DrawWorkspace.of(MOST_SEQUENCES, spec.vocab_size, self.model.device)
        stage = Stage(self.network, workspace, self.newest, SCRATCH)
        self.graphs = TurnGraphs(stage, kernels.prompts, kernels.decode, 192)
        capture_all([(self.graphs, 192), (self.graphs, 64)], self.model.device)

    def eager(self, batch: Batch) -> torch.Tensor:
        inputs = device_inputs(batch, self.newest)
        return self.network.logits(inputs.rows, self.prompts.step(batch), inputs.sampled)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with torch.inference_mode():
        yield Rig()


@pytest.mark.parametrize(
    "parts",
    [
        [(1, 0, 40)],
        [(1, 0, 64)],
        [(1, 600, 64), (2, 0, 30)],
        [(3, 700, 1), (1, 0, 60), (2, 511, 2), (4, 130, 1)],
        [(slot, 64 * slot, 20 + slot) for slot in range(1, SLOTS)],
        [(3, 700, 1), (4, 130, 1), (2, 0, 1), (1, 0, 60), (5, 511, 70)],
        [(3, 700, 1), (1, 0, 60), (4, 130, 1), (5, 511, 90)],
        [(1, 800, 100), (2, 0, 92)],
    ],
    ids=[
        "one prompt",
        "a full graph",
        "a long past",
        "decodes among prompts",
        "many",
        "decodes with their own kernel",
        "a decode after a prompt",
        "no decode for that kernel",
    ],
)
def test_a_step_is_the_same_captured(rig: Rig, parts: list[tuple[int, int, int]]) -> None:
    for slot, start, _ in parts:
        if start:
            rig.eager(make_batch([(slot, 0, TEXT[:start])]))
    batch = make_batch([(slot, start, TEXT[start : start + count]) for slot, start, count in parts])
    expected = rig.eager(batch)
    assert rig.graphs.fits(batch)
    outcome = rig.graphs.replay(batch)
    logits = outcome.logits[: len(parts)]
    assert (logits.float() - expected.float()).norm() / expected.float().norm() < CLOSE
    tokens = outcome.tokens[: len(parts)]
    assert tokens.tolist() == logits.float().argmax(-1).tolist()
    assert rig.newest[[slot for slot, _, _ in parts]].tolist() == tokens.tolist()


def test_a_prompt_among_a_crowd_that_decodes() -> None:
    """More sequences than a small graph has rows for prompts: each still finds its own."""
    with torch.inference_mode():
        rig = Rig(slots=100)
        for slot in range(1, 100):
            rig.eager(make_batch([(slot, 0, TEXT[slot : slot + 30 + slot])]))
        parts = [(slot, 30 + slot, TEXT[slot : slot + 1]) for slot in range(1, 99)]
        batch = make_batch([*parts, (99, 129, TEXT[:60])])
        expected = rig.eager(batch)
        assert rig.graphs.fits(batch)
        logits = rig.graphs.replay(batch).logits[:99]
        assert (logits.float() - expected.float()).norm() / expected.float().norm() < CLOSE


def test_a_decode_goes_on_from_a_token_that_is_coming(rig: Rig) -> None:
    prompt = make_batch([(1, 0, TEXT[:40])])
    token = int(rig.graphs.replay(prompt).tokens[0])
    told = rig.eager(make_batch([(1, 40, [token])]))
    outcome = rig.graphs.replay(make_batch([(1, 40, [COMING]), (2, 0, TEXT[:9])]))
    assert outcome.ids[0] == token
    assert (outcome.logits[:1].float() - told.float()).norm() / told.float().norm() < CLOSE


def test_only_what_is_sampled_has_a_token(rig: Rig) -> None:
    batch = make_batch([(1, 0, TEXT[:30]), (2, 0, TEXT[:20]), (3, 0, TEXT[:10])], sampled=[2])
    expected = rig.eager(batch)
    before = rig.newest.clone()
    outcome = rig.graphs.replay(batch)
    assert (outcome.logits[:1].float() - expected.float()).norm() / expected.float().norm() < CLOSE
    assert torch.equal(rig.newest[[1, 2]], before[[1, 2]])


def test_more_prompts_than_there_is_room_for_do_not_fit() -> None:
    with torch.inference_mode():
        rig = Rig(slots=100)
        many = [(slot, 0, TEXT[:2]) for slot in range(1, 67)]
        assert not rig.graphs.fits(make_batch([(99, 0, TEXT[:1]), *many[:65]]))
        assert rig.graphs.fits(make_batch([(99, 0, TEXT[:1]), *many[:64]]))


def test_what_is_too_large_does_not_fit(rig: Rig) -> None:
    assert not rig.graphs.fits(make_batch([(1, 0, TEXT[:193])]))
    assert rig.graphs.fits(make_batch([(1, 0, TEXT[:192])]))
