"""Which code computes a model, and where its weights come from."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from chatserve.model.attention import TransformersWeights
from chatserve.model.errors import ModelNotFound
from chatserve.model.fused import FusedWeights
from chatserve.model.loaded import LoadedModel
from chatserve.model.loader import load_model, stored_tensors
from chatserve.model.origin import locate
from chatserve.model.tensor_sources import SafetensorsFolder, StateDict
from tests.model.fused_tiny import Rig, fused, lively_module
from tests.model.tiny import FAMILIES, logits_of, make_batch, poisoned_arena, tiny_config, tiny_module

TEXT = list(range(5, 30))


def config_only(folder: Path, kind: str = "llama", **changes: object) -> Path:
    tiny_config(kind, **changes).save_pretrained(folder)
    return folder


def load(folder: Path, device: str = "cpu", *, random_weights: bool = False) -> LoadedModel:
    return load_model(str(folder), dtype=None, device=device, max_len=128, random_weights=random_weights)


def logits(model: LoadedModel) -> torch.Tensor:
    return logits_of(model, poisoned_arena(model, 1, len(TEXT)), make_batch([(0, 0, TEXT)]))


def test_a_folder_without_weights_names_the_option_for_it(tmp_path):
    with pytest.raises(ModelNotFound, match=r"no weights could be read.*--random-weights"):
        load(config_only(tmp_path))


@pytest.mark.parametrize("name", ["llama 8:1", "gemma, scaled embeddings"])
def test_random_weights_are_the_same_every_time(tmp_path, name):
    kind, changes = FAMILIES[name]
    folder = config_only(tmp_path, kind, **changes)
    first, again = (load(folder, random_weights=True) for _ in range(2))
    assert torch.equal(logits(first), logits(again))
    assert logits(first).std() > 0


def test_random_weights_leave_the_callers_numbers_alone(tmp_path):
    folder = config_only(tmp_path)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    load(folder, random_weights=True)
    assert torch.rand(1) == expected


def test_the_cpu_runs_transformers_own_model_and_the_log_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    assert isinstance(load(config_only(tmp_path), random_weights=True).weights, TransformersWeights)
    assert "computed by transformers' own model: the device is cpu" in caplog.text


def test_safetensors_are_read_straight_and_everything_else_through_transformers(tmp_path):
    module = lively_module("llama")
    module.save_pretrained(tmp_path)
    assert isinstance(stored_tensors(locate(str(tmp_path)), torch.float32), SafetensorsFolder)
    (tmp_path / "model.safetensors").unlink()
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    other = stored_tensors(locate(str(tmp_path)), torch.float32)
    assert isinstance(other, StateDict)
    batch = make_batch([(0, 0, TEXT)])
    assert torch.equal(Rig(fused(module, other)).logits(batch), Rig(fused(module)).logits(batch))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "weights", "says"),
    [
        ("llama 8:1", FusedWeights, "computed by the fused decoder"),
        ("gemma, scaled embeddings", TransformersWeights, "gemma: not one of llama, mistral, qwen2, qwen3"),
    ],
)
@pytest.mark.parametrize("stored", [False, True], ids=["random", "stored"])
def test_a_gpu_runs_the_fused_decoder_where_it_can(tmp_path, caplog, name, weights, says, stored):
    caplog.set_level(logging.INFO)
    kind, changes = FAMILIES[name]
    if stored:
        tiny_module(tiny_config(kind, **changes)).save_pretrained(tmp_path)
    else:
        config_only(tmp_path, kind, **changes)
    model = load(tmp_path, "cuda", random_weights=not stored)
    assert isinstance(model.weights, weights)
    assert says in caplog.text
    assert model.device == torch.device("cuda:0")
    assert logits(model).isfinite().all()
