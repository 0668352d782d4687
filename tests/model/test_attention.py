"""Slots against transformers' own attention, in float32, to 1e-4, over an arena of NaN."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import torch

from tests.model.tiny import logits_of, make_batch, make_tiny, tiny_config

CLOSE = 1e-4


def tokens(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(3, 97), k=count)


def run(tiny, arena, batch):
    return logits_of(tiny.model, arena, batch)


def assert_close(logits, expected):
    torch.testing.assert_close(logits, expected, atol=CLOSE, rtol=0)


def test_a_whole_prompt_gives_the_reference_logits(family):
    """A43: every ratio of heads, head sizes that do not add up to the hidden size."""
    prompt = tokens(37, 1)
    logits = run(family, family.arena(3, 64), make_batch([(1, 0, prompt)]))
    assert_close(logits[0], family.reference(prompt)[-1])


def test_uneven_chunks_give_the_logits_of_the_whole_prompt(family):
    """A10: the cut does not matter, wherever it falls."""
    prompt = tokens(50, 2)
    expected = family.reference(prompt)
    arena = family.arena(2, 64)
    start = 0
    for size in (7, 1, 16, 2, 24):
        logits = run(family, arena, make_batch([(1, start, prompt[start : start + size])]))
        start += size
        assert_close(logits[0], expected[start - 1])


def test_decode_rows_give_the_reference_logits(family):
    text = tokens(24, 3)
    expected = family.reference(text)
    arena = family.arena(1, 32)
    run(family, arena, make_batch([(0, 0, text[:9])]))
    for position in range(9, len(text)):
        logits = run(family, arena, make_batch([(0, position, [text[position]])]))
        assert_close(logits[0], expected[position])


def test_prompt_and_decode_rows_mix_in_one_batch_over_scrambled_slots(family):
    texts = {slot: tokens(20 + 3 * slot, slot) for slot in range(5)}
    expected = {slot: family.reference(text) for slot, text in texts.items()}
    arena = family.arena(6, 48)
    done = dict.fromkeys(texts, 0)
    shuffle = random.Random(7)
    while any(done[slot] < len(text) for slot, text in texts.items()):
        running = [slot for slot, text in texts.items() if done[slot] < len(text)]
        shuffle.shuffle(running)
        sizes = [shuffle.choice([1, 1, 2, 6]) for _ in running]
        parts = [
            (slot, done[slot], texts[slot][done[slot] :][:size]) for slot, size in zip(running, sizes, strict=True)
        ]
        logits = run(family, arena, make_batch(parts))
        for row, (slot, start, new) in enumerate(parts):
            done[slot] = start + len(new)
            assert_close(logits[row], expected[slot][done[slot] - 1])


def test_nothing_is_written_outside_the_new_rows(llama):
    """A41: no row that is nobody's, no neighbour's, none past the end."""
    arena = llama.arena(4, 32)
    run(llama, arena, make_batch([(2, 0, tokens(5, 1)), (0, 0, tokens(1, 2))]))
    before = arena.clone()
    run(llama, arena, make_batch([(2, 5, tokens(3, 3)), (0, 1, tokens(1, 4))]))
    written = torch.zeros(4, 32, dtype=torch.bool)
    written[2, :8] = True
    written[0, :2] = True
    assert arena[written].isfinite().all()
    assert arena[~written].isnan().all()
    assert torch.equal(arena[2, :5], before[2, :5])
    assert torch.equal(arena[0, :1], before[0, :1])


def test_a_prompt_longer_than_a_query_block_is_attended_in_parts():
    tiny = make_tiny(tiny_config("llama", max_position_embeddings=2048), max_len=2048)
    prompt = tokens(1300, 5)
    arena = tiny.arena(1, 1400)
    run(tiny, arena, make_batch([(0, 0, prompt[:100])]))
    logits = run(tiny, arena, make_batch([(0, 100, prompt[100:])]))
    assert_close(logits[0], tiny.reference(prompt)[-1])


def test_only_sampled_rows_get_logits(llama):
    first, second = tokens(6, 1), tokens(9, 2)
    logits = run(llama, llama.arena(2, 16), make_batch([(0, 0, first), (1, 0, second)], sampled=[1]))
    assert logits.shape == (1, 97)
    assert_close(logits[0], llama.reference(second)[-1])


def test_rows_that_are_not_mapped_are_never_touched():
    """Every row is a page of its own; those past each sequence's end fault on any access."""
    command = [sys.executable, "-m", "tests.model.faulting_arena"]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "alive"), result.stderr
