"""A step's numbers on their way to the device: gathered in pinned memory, copied at once, waited for by nobody."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from chatserve.model.batch import COMING, Batch, Sample
from chatserve.model.draws import key
from chatserve.model.sampler import is_greedy
from chatserve.model.step import StepRows

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What the draws of a step need on the device, an entry a sample.

    temperatures: float32, 0 for the best token.  keys: int64.  slots: int64, where the newest tokens are kept.
    """

    temperatures: torch.Tensor
    keys: torch.Tensor
    slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeviceInputs:
    """rows: every id known.  sampled: int64 [samples], the rows to sample."""

    rows: StepRows
    sampled: torch.Tensor
    drawing: Drawing


def to_device(numbers: Numbers, device: torch.device) -> torch.Tensor:
    """One copy, queued; the pinned memory is kept until it is done."""
    pinned = torch.empty(numbers.shape, dtype=torch.int64, pin_memory=True)
    pinned.numpy()[...] = numbers
    return pinned.to(device, non_blocking=True)


def together(parts: Sequence[Numbers], device: torch.device) -> list[torch.Tensor]:
    """All of them by one copy, each where a kernel finds it aligned: Triton compiles one anew for an address that is
    not a multiple of 16 bytes.
    """
    places = [len(part) + len(part) % 2 for part in parts]
    numbers = np.zeros(sum(places), dtype=np.int64)
    for part, end in zip(parts, itertools.accumulate(places), strict=True):
        start = end - len(part) - len(part) % 2
        numbers[start : start + len(part)] = part
    found = to_device(numbers, device).split_with_sizes(places)
    return [each[: len(part)] for each, part in zip(found, parts, strict=True)]


def temperature_bits(samples: Sequence[Sample]) -> Numbers:
    """The temperature of each, as the bits of a float64, so that it travels with the integers."""
    temperatures = [0.0 if is_greedy(each.params) else each.params.temperature for each in samples]
    return np.array(temperatures, dtype=np.float64).view(np.int64)


def draw_keys(samples: Sequence[Sample]) -> Numbers:
    """The key of each draw; none is needed where nothing is drawn."""
    keys = [0 if is_greedy(each.params) else key(each.params.seed, each.step) for each in samples]
    return np.array(keys, dtype=np.int64)


def temperatures_of(bits: torch.Tensor) -> torch.Tensor:
    """float32 on the device, from what `temperature_bits` sent."""
    return bits.view(torch.float64).float()


def device_inputs(batch: Batch, newest: torch.Tensor) -> DeviceInputs:
    """newest: int64 [slots], on the device: the token that is COMING in each slot."""
    ends = list(itertools.accumulate(batch.counts))
    sequences = [each.sequence for each in batch.samples]
    parts = (
        batch.token_ids.numpy(),
        batch.positions.numpy(),
        np.repeat(np.array(batch.slots, dtype=np.int64), batch.counts),
        np.array([ends[each] - 1 for each in sequences], dtype=np.int64),
        np.array([batch.slots[each] for each in sequences], dtype=np.int64),
        draw_keys(batch.samples),
        temperature_bits(batch.samples),
    )
    ids, positions, slots, sampled, sampled_slots, keys, temperatures = together(parts, newest.device)
    known = torch.where(ids == COMING, newest[slots], ids)
    return DeviceInputs(
        rows=StepRows(known, positions, slots),
        sampled=sampled,
        drawing=Drawing(temperatures_of(temperatures), keys, sampled_slots),
    )
