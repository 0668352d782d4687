"""A stray touch is a real fault on the host driver. It kills the process when it works, so it is another process."""

import signal
import subprocess
import sys
import textwrap

import pytest

SETUP = """
    import numpy as np, torch
    from vtensor.driver.host import HostDriver
    from vtensor.layout import KVLayout
    from vtensor.manager import Manager
    from vtensor.view import arena_view
    driver = HostDriver()
    layout = KVLayout.choose(layers=1, kv_heads=1, head_dim=8, itemsize=4, granularity=4096, max_len=1000,
                             chunk_tokens=64)
    manager = Manager(driver, layout, slots=4, limit=32)
    rows = arena_view(layout, manager.arena, slots=manager.slots, dtype=torch.float32, device=driver.dlpack_device)
    tokens = np.arange(200, dtype=np.int32)
    author = manager.create(200)
    rows[author.slot.index, :200] = 1.0
    manager.publish(author, "", tokens)
    reader = manager.prefix_match("", np.append(tokens, [7, 7]).astype(np.int32), 2).vtensor
    assert rows[reader.slot.index, :200].eq(1.0).all()
"""


def run(line: str) -> int:
    script = textwrap.dedent(SETUP) + line + "\nprint('survived')"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False).returncode


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param("rows[reader.slot.index, 191] = 2.0", id="a write below a reader's shared chunks"),
        pytest.param("rows[reader.slot.index, 256].sum()", id="a read past what is mapped"),
        pytest.param("rows[1, 0] = 2.0", id="a write into a slot nobody has"),
    ],
)
def test_a_stray_touch_is_a_segmentation_fault(stray: str) -> None:
    assert run(stray) == -signal.SIGSEGV


@pytest.mark.parametrize(
    "proper",
    [
        pytest.param("rows[reader.slot.index, 200:256] = 2.0", id="writing past the shared rows"),
        pytest.param("rows[author.slot.index, 200:256] = 2.0", id="the author goes on writing"),
    ],
)
def test_what_is_mapped_can_be_used(proper: str) -> None:
    assert run(proper) == 0
