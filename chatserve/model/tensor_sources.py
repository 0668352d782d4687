"""Where a model's tensors come from: safetensors files, a model in memory, or nowhere (random ones).

Each source fills tensors that lie on the device already, one after the other: host memory never holds the model twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open

from chatserve.model.completeness import refuse_incomplete
from chatserve.model.errors import IncompleteModel
from chatserve.model.origin import Origin

Progress = Callable[[int, int], None]
"""Told how many bytes are done, of how many."""

SEED = 0
"""Of random weights."""
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
COMPUTED = "rotary_emb.inv_freq"
"""How old checkpoints end the name of a table that is computed from the config today."""


def no_progress(done: int, total: int) -> None:
    """Tells nobody."""


class TensorSource(Protocol):
    """What fills tensors by their names."""

    def fill(self, targets: Mapping[str, torch.Tensor], progress: Progress) -> None:
        """Write every target, converted to its dtype. Raises IncompleteModel before the first is written."""
        ...


class Counter:
    """Tells a progress what each tensor adds."""

    def __init__(self, targets: Iterable[torch.Tensor], progress: Progress) -> None:
        self._done = 0
        self._total = sum(target.nbytes for target in targets)
        self._progress = progress
        progress(0, self._total)

    def add(self, target: torch.Tensor) -> None:
        self._done += target.nbytes
        self._progress(self._done, self._total)


class RandomWeights:
    """As an untrained model begins: normal with the deviation `spread`, norms 1, biases 0. One seed, one model."""

    def __init__(self, seed: int, spread: float) -> None:
        self._seed = seed
        self._spread = spread

    def fill(self, targets: Mapping[str, torch.Tensor], progress: Progress) -> None:
        """See TensorSource; drawn on the targets' device."""
        counter = Counter(targets.values(), progress)
        device = next(iter(targets.values())).device
        generator = torch.Generator(device).manual_seed(self._seed)
        for name, target in targets.items():
            if name.endswith("norm.weight"):
                target.fill_(1.0)
            elif name.endswith(".bias"):
                target.zero_()
            else:
                target.normal_(0.0, self._spread, generator=generator)
            counter.add(target)


class StateDict:
    """The tensors of a model that is in memory. name: the model's, for messages."""

    def __init__(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        self._name = name
        self._tensors = tensors

    def fill(self, targets: Mapping[str, torch.Tensor], progress: Progress) -> None:
        """See TensorSource."""
        refuse_differences(self._name, {name: list(tensor.shape) for name, tensor in self._tensors.items()}, targets)
        counter = Counter(targets.values(), progress)
        for name, target in targets.items():
            target.copy_(self._tensors[name])
            counter.add(target)


class SafetensorsFolder:
    """model.safetensors, or the files that its index names. name: the model's, for messages."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder

    @staticmethod
    def holds_weights(folder: Path) -> bool:
        """Whether there are such files in a folder."""
        return (folder / INDEX).is_file() or (folder / SINGLE).is_file()

    def fill(self, targets: Mapping[str, torch.Tensor], progress: Progress) -> None:
        """See TensorSource."""
        try:
            files = self._files()
            shapes = {name: shape for file in files for name, shape in tensor_shapes(file).items()}
            refuse_differences(self._name, shapes, targets)
            counter = Counter(targets.values(), progress)
            device = next(iter(targets.values())).device
            for file in files:
                with safe_open(file, framework="pt", device=str(device)) as tensors:
                    for name in filter(targets.__contains__, tensors.keys()):
                        targets[name].copy_(tensors.get_tensor(name))
                        counter.add(targets[name])
        except SafetensorError as error:
            raise IncompleteModel(f"a weights file of {self._name} is damaged: {error}") from error

    def _files(self) -> Sequence[Path]:
        """Raises IncompleteModel when one is not there."""
        index = self._folder / INDEX
        if not index.is_file():
            return [self._folder / SINGLE]
        named = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        absent = [name for name in named if not (self._folder / name).is_file()]
        if absent:
            raise IncompleteModel(f"{self._name} lacks weights files that its {INDEX} names: {', '.join(absent)}")
        return [self._folder / name for name in named]


def stored_in(origin: Origin) -> SafetensorsFolder | None:
    """The safetensors of a local folder, if it is one and has any."""
    folder = Path(origin.location)
    return SafetensorsFolder(origin.name, folder) if SafetensorsFolder.holds_weights(folder) else None


def tensor_shapes(file: Path) -> dict[str, list[int]]:
    """What a file's header says is in it."""
    with safe_open(file, framework="pt") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118 (no mapping)


def refuse_differences(model: str, shapes: Mapping[str, Sequence[int]], targets: Mapping[str, torch.Tensor]) -> None:
    """Raises IncompleteModel unless the tensors of these shapes are the targets.

    An output layer beside tied embeddings is a copy of them, and is left alone.
    """
    unused = {name for name in shapes.keys() - targets.keys() if not name.endswith(COMPUTED)}
    refuse_incomplete(
        model,
        missing=targets.keys() - shapes.keys(),
        unused=unused - {"lm_head.weight"},
        misshapen=[
            f"{name} ({list(shapes[name])} instead of {list(target.shape)})"
            for name, target in targets.items()
            if name in shapes and list(shapes[name]) != list(target.shape)
        ],
    )
