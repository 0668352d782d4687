"""Run as a program: turn a .gguf file's or a hub id's tokenizer into JSON on standard output.

Stands alone (it imports nothing of this package), because it runs in a child process that may load torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformers import AutoTokenizer


def main(source: str) -> None:
    """Write {"tokenizer": tokenizer.json as text, "named": special tokens, "template": chat template or None}."""
    path = Path(source)
    if path.suffix == ".gguf":
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    else:
        tokenizer = AutoTokenizer.from_pretrained(source)
    found = {
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
        "named": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "template": tokenizer.chat_template,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
