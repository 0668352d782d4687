"""Where a tokenizer comes from: a folder is read as it is, anything else is converted by transformers.

That happens in a child process: transformers imports torch, which a server must not. It costs seconds once, at start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chatserve.text.errors import TokenizerNotFound

CONVERTER: Final = Path(__file__).with_name("convert.py")
CONVERT_SECONDS: Final = 600
CONVERTIBLE: Final = ("tokenizer.model", "spiece.model", "vocab.json")
NAMED: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """What a model's files say about its text.

    tokenizer: tokenizer.json, parsed.
    named: the literal of each named special token ("eos_token": "</s>"), as templates know them.
    end_ids: end token ids that the config and the generation settings list.
    add_bos: whether a text begins with bos_token; None leaves it to tokenizer.json.
    template: the chat template's source, "" without one.
    """

    tokenizer: dict[str, Any]
    named: dict[str, str]
    end_ids: tuple[int, ...]
    add_bos: bool | None
    template: str


def read_source(source: str) -> TokenizerSource:
    """Read a local folder, a .gguf file or a hub id. Raises TokenizerNotFound."""
    folder = Path(source)
    if (folder / "tokenizer.json").is_file():
        return _read_folder(folder)
    if folder.is_dir() and not any((folder / name).is_file() for name in CONVERTIBLE):
        raise _not_found(source, "the folder has none of tokenizer.json, " + ", ".join(CONVERTIBLE))
    return _convert(source)


def _not_found(source: str, reason: str) -> TokenizerNotFound:
    return TokenizerNotFound(
        f"No tokenizer in {source!r}: {reason}. Name a folder with a tokenizer.json, a .gguf file or a hub id."
    )


def _read_folder(folder: Path) -> TokenizerSource:
    config = _read_json(folder / "tokenizer_config.json")
    named = _read_json(folder / "special_tokens_map.json") | config
    settings = [_read_json(folder / name) for name in ("config.json", "generation_config.json")]
    return TokenizerSource(
        tokenizer=_read_json(folder / "tokenizer.json"),
        named=_named(named),
        end_ids=tuple(dict.fromkeys(end for values in settings for end in _ids(values.get("eos_token_id")))),
        add_bos=config.get("add_bos_token"),
        template=_folder_template(folder, config),
    )


def _convert(source: str) -> TokenizerSource:
    command = [sys.executable, "-P", str(CONVERTER), source]
    child = subprocess.run(command, capture_output=True, text=True, timeout=CONVERT_SECONDS, check=False)
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise _not_found(source, reason[0])
    found = json.loads(child.stdout)
    return TokenizerSource(
        tokenizer=json.loads(found["tokenizer"]),
        named=_named(found["named"]),
        end_ids=(),
        add_bos=None,
        template=_chosen(found["template"]),
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _folder_template(folder: Path, config: dict[str, Any]) -> str:
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    older = _read_json(folder / "chat_template.json")
    return _chosen(older.get("chat_template") or config.get("chat_template"))


def _chosen(template: object) -> str:
    """One template of what may be a text, a list of {name, template} or a mapping by name; the default one."""
    if isinstance(template, list):
        template = {one["name"]: one["template"] for one in template}
    if isinstance(template, dict):
        template = template.get("default") or next(iter(template.values()), "")
    return template if isinstance(template, str) else ""


def _named(values: dict[str, Any]) -> dict[str, str]:
    literals = {name: _literal(values.get(name)) for name in NAMED}
    return {name: literal for name, literal in literals.items() if literal}


def _literal(token: object) -> str:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, int)]
