"""What runs on a GPU runs here too, small and on the CPU: that its figures are there and its kernels agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from loadtest import gpu_eviction, gpu_memory
from loadtest.attention_lab import Case
from loadtest.attention_race import race
from loadtest.gpu_decode import ON_CPU as DECODES
from loadtest.gpu_decode_step import engine_step
from loadtest.gpu_eviction import Waves
from loadtest.gpu_page import page
from loadtest.gpu_prefill import ON_CPU as PREFILLS
from loadtest.gpu_serve import beside_vllm, medians
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


def test_a_crowd_takes_the_place_of_those_before_it(folder: Path) -> None:
    size = gpu_eviction.SMALL
    bench = Bench(folder, max_running=size.crowd, kv_bytes=640 << 10, random_weights=True)
    waves = Waves(bench, size)
    found = [waves.wave() for _ in range(4)]
    bench.engine.audit()
    bench.engine.close()
    assert found[0]["evicted_chunks"] == 0
    assert found[3]["evicted_chunks"] > 0
    assert {wave["takeovers"] for wave in found} == {size.crowd * (size.turns - 1)}, "later turns keep their place"


def test_a_step_in_the_engine_is_timed_from_end_to_end(folder: Path) -> None:
    bench = Bench(folder, max_running=3, random_weights=True)
    found = engine_step(bench, batch=3, context=64, steps=24)
    bench.engine.close()
    assert 0 < found["engine_p50_ms"] <= found["engine_worst_ms"]


def test_the_page_says_which_aims_are_met() -> None:
    machine = {"gpu": None, "versions": {}, "python": "3", "cpus": 2}
    decode = [{"batch": 1, "context": 1_024, "kv_heads": 8, "split_slots_us": 7.0, "at_most_us": 7.6}]
    prefill = [{"batch": 1, "prefix": 1, "new": 2, "fa3_slots_tflops": 600.0, "at_least_tflops": 640.0}]
    shown = page({"machine": machine, "decode": {"measured before": decode}, "prefill": {"measured before": prefill}})
    aims = [line for line in shown.splitlines() if " at most " in line or " at least " in line]
    assert [line.split(" | ")[-1] for line in aims] == ["yes |", "no |"]


def test_scenarios_stand_beside_what_others_were_measured_to_do() -> None:
    load = {
        "scenario": "C",
        "wall_s": 10.0,
        "out_tok_s": 7_056.0,
        "ttft_later_ms": [100.0, 150.0, 200.0],
        "tpot_ms": [7.0, 8.0, 9.0],
        "cached_share": 0.9,
        "server": {"chatserve:stalls_total": 0.0},
        "errors": 0,
    }
    row = beside_vllm(load)
    assert (row["vLLM tok/s"], row["ratio"], row["met"]) == (5_880, 1.2, True)
    slow = beside_vllm(load | {"ttft_later_ms": [181.0, 190.0, 200.0]})
    assert not slow["met"], "its later turns wait too long for their first token"


def test_the_round_of_median_throughput_stands_for_all() -> None:
    def load(rate: float, errors: int = 0) -> dict[str, Any]:
        return {"A": {"out_tok_s": rate, "ttft_later_ms": [rate / 10], "errors": errors, "failures": ["late"] * errors}}

    (found,) = medians([load(220.0), load(260.0, errors=1), load(240.0)]).values()
    assert (found["out_tok_s"], found["ttft_later_ms"]) == (240.0, [24.0])
    assert found["rounds_out_tok_s"] == [220.0, 240.0, 260.0]
    assert (found["errors"], found["failures"]) == (1, ["late"]), "a failure in any round is told"


def test_parts_that_fail_are_told_and_lose_no_other(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    out.write_text(json.dumps({"machine": {}, "decode": {"ragged": []}}))
    command = [sys.executable, "-m", "loadtest.bench_gpu", "--only", "turn,rounding", "--out", str(out)]
    ended = subprocess.run([*command, "--model", str(tmp_path / "none")], capture_output=True, check=False)
    kept = json.loads(out.read_text())
    assert ended.returncode == 1
    assert "exit status 1" in kept["turn"]["error"]
    assert kept["rounding"]["error"]
    assert kept["decode"] == {"ragged": []}, "what another run measured stays"
    assert "This part failed" in out.with_suffix(".md").read_text()
