"""Tokens drawn without a sort follow softmax(logits / T), and depend on nothing but their own row."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from chatserve.model.draw_triton import TILE, DrawWorkspace, _exponential, draw_tokens

VOCAB = 2 * TILE + 100


def draw(
    logits: torch.Tensor, temperature: float | list[float], keys: list[int], last: torch.Tensor | None = None
) -> list[int]:
    """Row r belongs to slot r unless `last` is wider; what the call does not write is poison."""
    rows, device = len(logits), logits.device
    workspace = DrawWorkspace.of(rows + 1, logits.shape[1], device)
    for tensor in (workspace.scores, workspace.logits):
        tensor.fill_(float("nan"))
    workspace.tokens.fill_(-9)
    temperatures = torch.tensor(temperature if isinstance(temperature, list) else [temperature] * rows, device=device)
    if last is None:
        last = torch.full((rows,), -9, device=device)
    slots = torch.arange(rows, device=device)
    drawn = draw_tokens(logits, temperatures.float(), torch.tensor(keys, device=device), slots, last, workspace)
    assert torch.equal(last[:rows], drawn.clamp(min=0))
    return [int(token) for token in drawn]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_greedy_takes_the_first_of_the_best(dtype: torch.dtype, device: torch.device) -> None:
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(0)).to(dtype).to(device)
    logits[0, [70, 3000]] = 9.0
    logits[1, [VOCAB - 1, VOCAB - 2]] = 9.0
    logits[2, TILE] = 9.0
    wide = torch.full((3, VOCAB + 12), float("nan"), dtype=dtype, device=device)
    wide[:, :VOCAB] = logits
    assert draw(wide[:, :VOCAB], 0.0, [1, 2, 3]) == [70, VOCAB - 2, TILE]


def test_rows_with_a_broken_best_give_no_token(device: torch.device) -> None:
    logits = torch.zeros(5, VOCAB, device=device)
    logits[0, 4000] = float("nan")
    logits[1, 7] = float("inf")
    logits[2] = float("-inf")
    logits[3] = float("-inf")
    logits[3, 4100] = -5.0
    for temperature in (0.0, 0.8):
        drawn = draw(logits, temperature, [1, 2, 3, 4, 5])
        assert drawn[:4] == [-1, -1, -1, 4100]
        assert 0 <= drawn[4] < VOCAB


def test_a_draw_depends_on_its_key_not_on_its_row(device: torch.device) -> None:
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(0)).to(device)
    keys = [5, 2**40 + 5, -3, 11]
    together = draw(logits.expand(4, -1), 1.0, keys)
    assert len(set(together)) == 4
    alone = [draw(logits, 1.0, [key])[0] for key in keys]
    assert together == alone
    assert draw(logits.expand(4, -1), [0.0, 1.0, 1.0, 0.0], keys[::-1])[1:3] == alone[::-1][1:3]


def test_the_token_goes_to_its_slot(device: torch.device) -> None:
    logits = torch.zeros(2, VOCAB, device=device)
    logits[0, 40], logits[1, 50] = 1.0, 1.0
    last = torch.full((6,), -9, device=device)
    zeros = torch.zeros(2, device=device)
    workspace = DrawWorkspace.of(2, VOCAB, device)
    draw_tokens(logits, zeros, zeros.long(), torch.tensor([4, 1], device=device), last, workspace)
    assert last.tolist() == [-9, 50, -9, -9, 40, -9]


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_follow_the_distribution(temperature: float, device: torch.device) -> None:
    """Chi-square over draws with fixed keys: likely tokens in all quarters of a count, and rare ones."""
    tokens = [0, 1, 2, 3, 517, 1030, 1606, 2007, 9, TILE - 1]
    logits = torch.full((1, TILE), float("-inf"))
    logits[0, tokens] = torch.tensor([2.0, 1.5, 1.0, 0.5, 1.0, 1.5, 2.0, 0.0, -1.0, -1.5])
    draws = 40 if device.type == "cpu" else 20_000
    drawn = draw(logits.to(device).expand(draws, -1), temperature, [key * 7919 for key in range(draws)])
    expected = (logits[0, tokens].double() / temperature).softmax(dim=-1) * draws
    seen = torch.tensor([drawn.count(token) for token in tokens]).double()
    assert seen.sum() == draws
    chi_square = ((seen - expected) ** 2 / expected)[expected > 1].sum()
    assert chi_square < 21.7  # nine degrees of freedom, 1 %


@triton.jit
def exponentials_kernel(keys, exponentials, TILE: tl.constexpr):
    place = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(exponentials + place, _exponential(tl.load(keys + tl.program_id(0)), 3, TILE))


def test_every_token_of_every_key_has_its_own_exponential(device: torch.device) -> None:
    """Kolmogorov and Smirnov's largest distance of 20 tiles from the distribution, and that they don't go together."""
    keys = torch.arange(20, device=device) * 2**33
    drawn = torch.full((20, TILE), float("nan"), device=device)
    exponentials_kernel[(20,)](keys, drawn, TILE=TILE, num_warps=4)
    reached = (1 - (-drawn.double().flatten().sort().values).exp()).cpu()
    wanted = (torch.arange(20 * TILE) + 0.5) / (20 * TILE)
    assert (reached - wanted).abs().max() < 1.63 / (20 * TILE) ** 0.5  # 1 %
    assert len(drawn.unique()) > 0.99 * 20 * TILE
    together = torch.corrcoef(drawn) - torch.eye(20, device=device)
    assert together.abs().max() < 0.12
    neighbours = torch.corrcoef(drawn.view(-1, 4).T) - torch.eye(4, device=device)
    assert neighbours.abs().max() < 0.04
