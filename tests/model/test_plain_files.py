"""What is read without transformers is what transformers reads; whatever is not plain is left to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from chatserve.model import plain_files, transformers_files
from chatserve.model.decoder_shape import decoder_shape
from chatserve.model.loader import choose_dtype
from chatserve.model.origin import locate
from chatserve.model.rope import rope_tables
from chatserve.model.support import check_config, context_limit
from tests.model.fused_tiny import FUSED, LLAMA3
from tests.model.tiny import tiny_config

ROOT = Path(__file__).parents[2]

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128009],
    "hidden_act": "silu",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "model_type": "llama",
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "torch_dtype": "float16",
    "transformers_version": "4.40.0",
    "use_cache": True,
    "vocab_size": 99,
}
QWEN: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen2",
    "eos_token_id": 5,
    "max_window_layers": 1,
    "sliding_window": 32,
    "use_sliding_window": False,
}
SCALED = {**LLAMA3, "original_max_position_embeddings": 64}
PLAIN: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "llama, today's": {**LLAMA, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "llama, every option": {**LLAMA, "head_dim": 32, "attention_bias": True, "mlp_bias": True, "dtype": "bfloat16"},
    "llama 3.1": {**LLAMA, "rope_scaling": {key: SCALED[key] for key in SCALED if key != "rope_theta"}},
    "mistral": {**LLAMA, "model_type": "mistral", "sliding_window": None},
    "mistral, a window": {**LLAMA, "model_type": "mistral", "sliding_window": 32, "tie_word_embeddings": True},
    "qwen2": QWEN,
    "qwen3": {**QWEN, "model_type": "qwen3", "head_dim": 16, "rope_scaling": None, "eos_token_id": None},
}
OTHERS: dict[str, dict[str, Any]] = {
    "another architecture": {**LLAMA, "model_type": "gemma"},
    "something unknown": {**LLAMA, "quantization_config": {"bits": 4}},
    "a rope type of transformers": {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "a rope base left to a default": {key: value for key, value in LLAMA.items() if key != "rope_theta"},
    "a window left to a default": {**LLAMA, "model_type": "mistral"},
    "a head size left to a default": {**QWEN, "model_type": "qwen3"},
    "windows in some layers": {**QWEN, "use_sliding_window": True},
    "a number that is none": {**LLAMA, "num_hidden_layers": "2"},
}


def folder_of(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> str:
    """A model folder without weights, its tokenizer ending answers with 4."""
    words = {word: index for index, word in enumerate(["a", "b", "c", "<unk>", "</s>"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>").save_pretrained(folder)
    folder.joinpath("config.json").write_text(json.dumps(config))
    if generation is not None:
        folder.joinpath("generation_config.json").write_text(json.dumps(generation))
    return str(folder)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_folder_is_described_as_transformers_describes_it(tmp_path, name):
    origin = locate(folder_of(tmp_path, PLAIN[name], {"eos_token_id": [7], "do_sample": True, "top_k": 20}))
    ours, theirs = plain_files.describe(origin), transformers_files.describe(origin)
    assert ours is not None
    assert (ours.end_ids, ours.defaults) == (theirs.end_ids, theirs.defaults)
    assert 4 in ours.end_ids
    assert context_limit(ours.config, None) == context_limit(theirs.config, None) == 256
    assert choose_dtype(None, "cuda", ours.config) == choose_dtype(None, "cuda", theirs.config)
    for limit in (32, 256):
        assert decoder_shape(ours.config, limit) == decoder_shape(theirs.config, limit)
    check_config(ours.config, 32)
    cpu = torch.device("cpu")
    assert all(map(torch.equal, rope_tables(ours.config, 256, cpu), rope_tables(theirs.config, 256, cpu)))


@pytest.mark.parametrize("name", FUSED)
def test_what_transformers_saves_of_them_is_read_alike(tmp_path, name):
    kind, changes = FUSED[name]
    folder = Path(folder_of(tmp_path, {}))
    tiny_config(kind, **changes).save_pretrained(folder)
    ours = plain_files.describe(locate(str(folder)))
    if ours is not None:
        assert decoder_shape(ours.config, 128) == decoder_shape(AutoConfig.from_pretrained(folder), 128)
    assert (ours is None) == any(word in name for word in ("linear", "longrope", "yarn"))


@pytest.mark.parametrize("generation", [None, {}, {"temperature": 0.5}, {"do_sample": True, "temperature": 1}])
def test_sampling_defaults_are_those_of_transformers(tmp_path, generation):
    origin = locate(folder_of(tmp_path, LLAMA, generation))
    ours = plain_files.describe(origin)
    assert ours is not None
    assert ours.defaults == transformers_files.describe(origin).defaults


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_is_not_plain_is_left_to_transformers(tmp_path, name):
    assert plain_files.describe(locate(folder_of(tmp_path, OTHERS[name]))) is None


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_so_is_a_folder_with_a_file_that_cannot_be_read(tmp_path, file):
    folder = folder_of(tmp_path, LLAMA)
    (tmp_path / file).write_text("{")
    assert plain_files.describe(locate(folder)) is None


@pytest.mark.parametrize("name", ["llama", "llama 3.1", "qwen3"])
def test_angles_are_bit_for_bit_those_of_transformers_to_the_last_position(tmp_path, name):
    config = AutoConfig.from_pretrained(folder_of(tmp_path, PLAIN[name]))
    rotary = LlamaRotaryEmbedding(config)
    expected = rotary(torch.empty(0), torch.arange(131072).unsqueeze(0))
    for ours, theirs in zip(rope_tables(config, 131072, torch.device("cpu")), expected, strict=True):
        assert torch.equal(ours, theirs[0, :, : ours.shape[1]])


def test_a_fused_model_is_described_and_loaded_without_transformers(tmp_path):
    """The engine's process, its Triton kernels too: transformers takes longer to import than a large model to load."""
    folder = folder_of(tmp_path, PLAIN["llama 3.1"])
    program = f"""
import sys
import torch
import chatserve.engine.process
import chatserve.model.attention_decode
import chatserve.model.cuda_runner
import chatserve.model.matvec_triton
import chatserve.model.ops_triton
from chatserve.model.decoder_shape import decoder_shape
from chatserve.model.loaded import Known
from chatserve.model.loader import describe_for, fused_model
from chatserve.model.origin import locate
from chatserve.model.tensor_sources import RandomWeights
described = describe_for(torch.device("cuda"), locate({folder!r}))
shape = decoder_shape(described.config, 64)
known = Known("m", described.end_ids, described.defaults, 64)
fused_model(described.config, shape, RandomWeights(0, 0.1), known, dtype=torch.float32, device=torch.device("cpu"))
heavy = {{"transformers", "torch._dynamo", "torch.distributed.tensor", "sympy", "accelerate", "huggingface_hub"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)
