"""What runs on a GPU runs here too, small and on the CPU: that its figures are there and its kernels agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import LlamaConfig

from loadtest import gpu_memory
from loadtest.attention_lab import Case
from loadtest.attention_race import race
from loadtest.gpu_decode import ON_CPU as DECODES
from loadtest.gpu_prefill import ON_CPU as PREFILLS
from loadtest.gpu_turn import SMALL, Turns
from loadtest.in_process import Bench


def test_the_work_of_a_case_is_that_of_causal_attention() -> None:
    case = Case.even(1, 8_192, 8_192)
    assert case.flops / 2_530e-6 / 1e12 == pytest.approx(651, rel=0.01), "as it was counted when it was measured before"
    assert Case.even(64, 2_047, 1).kv_bytes(2) / 4.3e6 == pytest.approx(125, rel=0.01)


def test_prompt_rows_on_slots_are_those_on_plain_tensors() -> None:
    found = race(Case.even(2, 40, 9), PREFILLS, rounds=1, device="cpu")
    assert found["differs"] < 1e-5
    assert found["sdpa_slots_us"] > 0
    assert "CUDA" in found["fa3_slots"], "what is not there says so"


def test_decode_rows_on_slots_are_those_on_plain_tensors() -> None:
    assert race(Case.even(3, 700, 1), DECODES, rounds=1, device="cpu")["differs"] < 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's config, and nothing else."""
    path = tmp_path_factory.mktemp("model")
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=199,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
    ).save_pretrained(path)
    return path


def test_turns_take_over_and_branch_and_leave_others_alone(folder: Path) -> None:
    bench = Bench(folder, max_running=16, step_tokens=SMALL.step_tokens, random_weights=True)
    turns = Turns(bench, SMALL)
    alone = turns.alone(SMALL.histories[0])
    others = turns.among_others(SMALL.histories[0])
    bench.engine.audit()
    bench.engine.close()
    assert min(alone[name] for name in ("same_step_ms", "takeover_ttft_ms", "branch_ttft_ms")) > 0
    assert len(others["quiet_step_ms"]) == 3
    assert others["stalls"] == 0


def test_many_decode_past_chunk_edges_and_nobody_waits(folder: Path) -> None:
    bench = Bench(folder, max_running=gpu_memory.SMALL.requests, random_weights=True)
    found = gpu_memory.measure(bench, [300, 251, 505], 20)
    bench.engine.close()
    assert found["stalls"] == found["preemptions"] == 0
    assert 0 < found["rounding_loss_mean"] <= found["rounding_loss_max"] < 1


def test_parts_that_fail_are_told_and_lose_no_other(tmp_path: Path) -> None:
    """No GPU here: parts that need one fail, one by one; the page is made of what there is."""
    out = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "loadtest.bench_gpu", "--only", "prefill,memory", "--out", str(out)]
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    kept = json.loads(out.read_text())
    assert status == 1
    assert kept["prefill"]["error"]
    assert kept["memory"]["error"]
    assert "prefill" in out.with_suffix(".md").read_text()
