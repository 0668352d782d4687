"""What cannot be computed faithfully is refused by name; what only looks like it is not."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from chatserve.model.errors import UnsupportedModel
from chatserve.model.loader import load_model
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.support import check_config, context_limit
from chatserve.model.transformers_model import wrap
from tests.model.tiny import SMALL, tiny_config, tiny_module


def angles(config: PreTrainedConfig) -> torch.Tensor:
    """The table of rotary angles a model of this config uses."""
    (table,) = [buffer for name, buffer in tiny_module(config).named_buffers() if name.endswith("rotary_emb.inv_freq")]
    return table


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("mistral", {"sliding_window": 100}, "sliding_attention.*only 100 tokens"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 1}, "only 100 tokens"),
        ("gemma2", {"sliding_window": 100}, "soft cap"),
        ("gemma3_text", {"sliding_window": 100, "layer_types": None}, "only 100 tokens"),
        ("deepseek_v3", {}, "latent attention"),
        ("t5", {}, "encoder-decoder"),
        ("qwen3_next", {}, "'linear_attention'"),
        ("lfm2", {"layer_types": ["conv", "full_attention", "conv"]}, "'conv'"),
        ("llama", {"rope_parameters": {"rope_type": "helix", "rope_theta": 1e4}}, "unknown rope type 'helix'"),
        ("llama", {"rope_scaling": {"type": "helix", "factor": 2.0}}, "unknown rope type 'helix'"),
        ("llama", {"num_key_value_heads": 3}, "8 attention heads cannot be shared out over 3 KV heads"),
    ],
)
def test_what_cannot_run_is_refused_by_name(kind, changes, says):
    """A43, A45."""
    config = CONFIG_MAPPING[kind](**{**SMALL, **changes})
    with pytest.raises(UnsupportedModel, match=says):
        check_config(config, 512)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("mistral", {"sliding_window": None}),
        ("mistral", {"sliding_window": 512}),
        ("qwen2", {"use_sliding_window": False, "sliding_window": 100}),
        ("qwen3", {"sliding_window": 100, "layer_types": ["full_attention"] * 3}),
        ("llama", {"rope_scaling": None}),
    ],
)
def test_a_window_that_is_only_mentioned_is_no_window(kind, changes):
    check_config(tiny_config(kind, **changes), 512)


def test_a_real_window_can_be_run_up_to_its_size():
    config = tiny_config("mistral", sliding_window=100)
    check_config(config, 100)
    wrap(tiny_module(config), name="m", end_ids=(), defaults=SamplingDefaults(), max_len=100)
    with pytest.raises(UnsupportedModel, match="sliding window of 100"):
        wrap(tiny_module(config), name="m", end_ids=(), defaults=SamplingDefaults(), max_len=101)


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("bloom", {"n_head": 8, "n_layer": 3}, "does not run|attention calls"),
        ("mamba", {}, "does not run|attention calls"),
        ("gpt_oss", {"layer_types": ["full_attention"] * 3, "head_dim": 16, "num_local_experts": 4}, "sinks"),
        ("bert", {"is_decoder": False}, "not plainly causal|does not run|attention calls"),
    ],
)
def test_what_a_config_does_not_tell_is_seen_when_it_runs(kind, changes, says):
    module = tiny_module(tiny_config(kind, **changes))
    with pytest.raises(UnsupportedModel, match=says):
        wrap(module, name=kind, end_ids=(), defaults=SamplingDefaults(), max_len=64)


def test_a_module_cast_with_its_rotary_tables_is_refused():
    """A42."""
    module = tiny_module(tiny_config("llama")).to(torch.bfloat16)
    with pytest.raises(UnsupportedModel, match="rotary angles need float32"):
        wrap(module, name="m", end_ids=(), defaults=SamplingDefaults(), max_len=64)


@pytest.mark.parametrize(
    "same",
    [
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_theta": 5e5},
        {"rope_theta": 5e5, "rope_scaling": {"type": "default"}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_parameters": {"rope_theta": 5e5}},
        {"rope_parameters": {"rope_type": "default"}, "rope_theta": 5e5},
        {"rope_theta": 5e5, "head_dim": None},
    ],
)
def test_rope_written_in_any_way_gives_the_same_angles(same):
    """A45: present but meaning nothing; the base in either place."""
    config = tiny_config("llama", **same)
    check_config(config, 512)
    expected = 1.0 / 5e5 ** (torch.arange(0, 8, 2) / 8)
    torch.testing.assert_close(angles(config), expected)


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_scaled_rope_is_scaled_under_its_old_and_its_new_key(key):
    """A45."""
    config = tiny_config("llama", rope_theta=1e4, rope_scaling={key: "linear", "factor": 4.0})
    check_config(config, 512)
    torch.testing.assert_close(angles(config), angles(tiny_config("llama", rope_theta=1e4)) / 4)


def test_longrope_runs_only_where_its_angles_do_not_change():
    """A45: what one sequence's length does to the angles would change its neighbours."""
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    config = tiny_config("phi3", rope_scaling=rope, original_max_position_embeddings=128, rope_theta=1e4)
    check_config(config, 128)
    with pytest.raises(UnsupportedModel, match=r"longrope.*128"):
        check_config(config, 129)


def test_absent_kv_heads_and_head_dim_mean_what_they_always_meant():
    """A45."""
    config = CONFIG_MAPPING["llama"](**{**SMALL, "num_key_value_heads": None, "head_dim": None})
    spec = wrap(tiny_module(config), name="m", end_ids=(), defaults=SamplingDefaults(), max_len=64).spec
    assert (spec.heads, spec.kv_heads, spec.head_dim) == (8, 8, 8)


def test_an_architecture_nobody_knows_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nobody-knows"}')
    with pytest.raises(UnsupportedModel, match="nobody-knows"):
        load_model(str(tmp_path), dtype=None, device="cpu", max_len=None)


def test_no_context_length_anywhere_must_be_given():
    config = AutoConfig.for_model("mamba")
    with pytest.raises(UnsupportedModel, match="give a max_len"):
        context_limit(config, None)
    with pytest.raises(UnsupportedModel, match="at least 1"):
        context_limit(config, 0)
