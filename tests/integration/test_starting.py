"""A server that cannot start says why, at once, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import httpx
import pytest
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig

from tests.integration.recital import copy_tokenizer
from tests.integration.serving import Serving, start, wait_until

pytestmark = pytest.mark.model

SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
}


def windowed(folder: Path) -> Path:
    """Layers that see 128 tokens; it is refused before its weights are missed."""
    MistralConfig(**SHAPE, sliding_window=128, architectures=["MistralForCausalLM"]).save_pretrained(folder)
    return folder


def incomplete(folder: Path) -> Path:
    """Without its output layer, and without being told that it shares the embeddings."""
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def refused(server: Serving, seconds: float) -> str:
    assert server.process.wait(seconds) == 1
    said = server.output.read_text()
    assert "Traceback" not in said
    return said


def test_models_that_cannot_be_run_rightly_are_refused_by_name(demo_folder: Path, tmp_path: Path) -> None:
    """A44, A45: both at once, to lose no time."""
    servers = []
    for make in (windowed, incomplete):
        folder = make(tmp_path / make.__name__)
        copy_tokenizer(demo_folder, folder)
        (tmp_path / f"of-{make.__name__}").mkdir()
        servers.append(start(str(folder), "--device", "cpu", folder=tmp_path / f"of-{make.__name__}"))
    window, missing = (refused(server, 60) for server in servers)
    assert "sliding_attention" in window
    assert "128" in window
    assert "lm_head.weight" in missing


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    assert "no-such-folder" in refused(start(str(tmp_path / "no-such-folder"), folder=tmp_path), 30)


def test_a_taken_port_is_told_before_anything_is_loaded(reciting: Serving, tmp_path: Path) -> None:
    """A47(c): a server of no model at all would be told of the port first; one of a real one as fast."""
    began = time.monotonic()
    said = refused(start(str(tmp_path / "no-such-folder"), folder=tmp_path, port=reciting.port), 10)
    assert f"Port {reciting.port} of 127.0.0.1 is taken" in said
    assert "no-such-folder" not in said
    assert time.monotonic() - began < 5, "Python and its libraries come first, no model"


def test_a_server_told_to_leave_while_its_model_loads_leaves_in_bounded_time(demo_folder: Path, tmp_path: Path) -> None:
    server = start(str(demo_folder), "--device", "cpu", folder=tmp_path)
    wait_until(lambda: listens(server), 20)
    engine = server.engine_pid()
    assert server.told(signal.SIGTERM, 12) == 0
    assert not Path(f"/proc/{engine}").exists()
    assert "Traceback" not in server.output.read_text()


def listens(server: Serving) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return server.get("/health").status_code == 200
    return False
