"""A folder with the shape of Llama-8B and the demo model's tokenizer, to be served with random weights.

python -m loadtest.llama_shape          writes .models/llama-8b-shape
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from loadtest.in_process import demo

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 1,
    "dtype": "bfloat16",
    "eos_token_id": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pad_token_id": 2,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
    "tie_word_embeddings": False,
    "vocab_size": 49152,
}
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def llama_shape(cache: Path) -> Path:
    """The folder under `cache`, made anew; the demo model is fetched for its tokenizer where it is missing."""
    folder, source = cache / "llama-8b-shape", demo()
    folder.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER:
        shutil.copyfile(source / name, folder / name)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    return folder


if __name__ == "__main__":
    print(llama_shape(Path(".models")))
