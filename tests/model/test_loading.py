"""What is loaded is whole, or loading fails by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig

from chatserve.model.errors import IncompleteModel, ModelNotFound, UnsupportedModel
from chatserve.model.loaded import LoadedModel
from chatserve.model.loader import load_model
from chatserve.model.sampling import SamplingDefaults
from tests.model.tiny import logits_of, make_batch, poisoned_arena, tiny_config, tiny_module

TEXT = list(range(5, 30))


def save(folder: Path, config: PreTrainedConfig, shard: str = "1GB") -> Path:
    tiny_module(config).save_pretrained(folder, max_shard_size=shard)
    return folder


def load(folder: Path, max_len: int | None = None) -> LoadedModel:
    return load_model(str(folder), dtype=None, device="cpu", max_len=max_len)


def logits(model: LoadedModel) -> torch.Tensor:
    return logits_of(model, poisoned_arena(model, 1, len(TEXT)), make_batch([(0, 0, TEXT)]))


def edit_tensors(folder: Path, *, without: str = "", copy: tuple[str, str] | None = None) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors.pop(without, None)
    if copy is not None:
        tensors[copy[1]] = tensors[copy[0]].clone()
    save_file(tensors, file, metadata={"format": "pt"})


def edit_json(file: Path, drop: tuple[str, ...] = (), **changes: object) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    for key in drop:
        content.pop(key, None)
    file.write_text(json.dumps(content | changes))


@pytest.mark.parametrize("shard", ["1GB", "20KB"], ids=["one file", "shards"])
def test_a_model_is_what_was_saved(tmp_path, shard):
    """A44: single and sharded files."""
    config = tiny_config("llama")
    model = load(save(tmp_path, config, shard))
    with torch.inference_mode():
        expected = tiny_module(config)(input_ids=torch.tensor([TEXT])).logits[0, -1]
    torch.testing.assert_close(logits(model)[0], expected, atol=1e-4, rtol=0)
    assert len(list(tmp_path.glob("*.safetensors"))) == (1 if shard == "1GB" else pytest.approx(20, abs=18))


@pytest.mark.parametrize("extra", [False, True], ids=["without the extra tensor", "with it"])
def test_tied_embeddings_make_the_output_layer(tmp_path, extra):
    """A44."""
    folder = save(tmp_path, tiny_config("llama", tie_word_embeddings=True))
    if extra:
        edit_tensors(folder, copy=("model.embed_tokens.weight", "lm_head.weight"))
    module = load(folder).weights.module
    assert torch.equal(module.get_output_embeddings().weight, module.get_input_embeddings().weight)


@pytest.mark.parametrize("drop", [(), ("tie_word_embeddings",)], ids=["untied", "flag absent"])
def test_an_output_layer_that_is_nowhere_is_an_error(tmp_path, drop):
    """A44: never left random."""
    folder = save(tmp_path, tiny_config("llama"))
    edit_tensors(folder, without="lm_head.weight")
    edit_json(folder / "config.json", drop=drop)
    with pytest.raises(IncompleteModel, match=r"missing: lm_head\.weight"):
        load(folder)


def test_any_missing_tensor_is_named(tmp_path):
    """A44."""
    folder = save(tmp_path, tiny_config("qwen2"))
    edit_tensors(folder, without="model.layers.1.self_attn.k_proj.bias")
    with pytest.raises(IncompleteModel, match=r"model\.layers\.1\.self_attn\.k_proj\.bias"):
        load(folder)


def test_a_tensor_that_nothing_uses_is_named(tmp_path):
    """A44."""
    folder = save(tmp_path, tiny_config("llama"))
    edit_tensors(folder, copy=("model.norm.weight", "model.layers.1.self_attn.sinks"))
    with pytest.raises(IncompleteModel, match=r"not used: model\.layers\.1\.self_attn\.sinks"):
        load(folder)


def test_a_tensor_of_another_shape_is_named(tmp_path):
    folder = save(tmp_path, tiny_config("llama"))
    edit_tensors(folder, copy=("model.norm.weight", "model.layers.0.self_attn.q_proj.weight"))
    with pytest.raises(IncompleteModel, match=r"of another shape: .*q_proj"):
        load(folder)


def test_a_damaged_file_is_an_error(tmp_path):
    folder = save(tmp_path, tiny_config("llama"))
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(IncompleteModel, match="damaged"):
        load(folder)


@pytest.mark.parametrize("source", ["/no/such/folder", "./none", "none.gguf", "a/b/c"])
def test_a_path_that_is_not_there_is_said_to_be_missing(source):
    with pytest.raises(ModelNotFound, match="there is no"):
        load_model(source, dtype=None, device="cpu", max_len=None)


def test_an_empty_folder_is_no_model(tmp_path):
    with pytest.raises((ModelNotFound, UnsupportedModel)):
        load(tmp_path)


def test_the_context_is_what_is_asked_within_what_the_model_was_made_for(tmp_path):
    folder = save(tmp_path, tiny_config("llama", max_position_embeddings=256))
    assert load(folder).spec.max_len == 256
    assert load(folder, max_len=100).spec.max_len == 100
    assert load(folder, max_len=1000).spec.max_len == 256


def test_a_dtype_is_taken_and_rotary_tables_stay_in_float32(tmp_path):
    """A42."""
    folder = save(tmp_path, tiny_config("llama"))
    model = load_model(str(folder), dtype="bfloat16", device="cpu", max_len=None)
    assert model.spec.dtype == "bfloat16"
    assert model.weights.module.dtype == torch.bfloat16
    tables = [buffer for name, buffer in model.weights.module.named_buffers() if name.endswith("inv_freq")]
    assert {table.dtype for table in tables} == {torch.float32}
    with pytest.raises(UnsupportedModel, match="'int4'"):
        load_model(str(folder), dtype="int4", device="cpu", max_len=None)


@pytest.mark.parametrize(
    ("config_end", "generation_end", "expected"),
    [(2, None, (2,)), (None, 5, (5,)), ([2, 7], 9, (2, 7, 9)), (2, [2, 3], (2, 3)), (None, None, ())],
)
def test_every_source_of_end_tokens_counts(tmp_path, config_end, generation_end, expected):
    """A46: the union, whether int, list or absent."""
    folder = save(tmp_path, tiny_config("llama"))
    edit_json(folder / "config.json", eos_token_id=config_end)
    edit_json(folder / "generation_config.json", eos_token_id=generation_end)
    assert load(folder).spec.end_ids == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, SamplingDefaults()),
        ({"temperature": 0.6, "top_k": 20}, SamplingDefaults()),
        ({"do_sample": False, "temperature": 0.6}, SamplingDefaults()),
        ({"do_sample": True}, SamplingDefaults()),
        ({"do_sample": True, "top_k": 0}, SamplingDefaults()),
        ({"do_sample": True, "top_k": None}, SamplingDefaults()),
        (
            {
                "do_sample": True,
                "temperature": 0.6,
                "top_p": 0.9,
                "top_k": 20,
                "min_p": 0.05,
                "repetition_penalty": 1.1,
            },
            SamplingDefaults(temperature=0.6, top_p=0.9, top_k=20, min_p=0.05, repetition_penalty=1.1),
        ),
    ],
)
def test_sampling_defaults_are_the_models_own_where_it_samples(tmp_path, settings, expected):
    """A16: 0 and null mean off."""
    folder = save(tmp_path, tiny_config("llama"))
    edit_json(folder / "generation_config.json", drop=("do_sample",), **settings)
    assert load(folder).spec.defaults == expected


@pytest.mark.model
def test_a_known_prompt_gives_a_known_first_token(demo_folder):
    """A44, A46: the demo model says "The capital of France is Paris." and both its end tokens count."""
    model = load(demo_folder)
    assert model.spec.end_ids == (0, 2)
    prompt = "1 9690 198 2683 359 253 5356 5646 11173 3365 3511 308 34519 28 7018 411 407 19712 8182 2 198 1 4093 198"
    question = "1780 314 260 3575 282 4649 47 2 198 1 520 9531 198"
    tokens = [int(token) for token in f"{prompt} {question}".split()]
    arena = poisoned_arena(model, 1, len(tokens) + 8)
    answer: list[int] = []
    new, start = tokens, 0
    while 2 not in answer:
        chosen = int(logits_of(model, arena, make_batch([(0, start, new)])).argmax())
        answer.append(chosen)
        start += len(new)
        new = [chosen]
    assert answer == [504, 3575, 282, 4649, 314, 7042, 30, 2]
