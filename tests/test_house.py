"""The house: which room may import which (ARCHITECTURE.md draws it), and what no file may do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [path for room in ("chatserve", "vtensor", "sessions") for path in sorted((ROOT / room).rglob("*.py"))]

BELOW = {
    "vtensor": set(),
    "sessions": set(),
    "chatserve.text": set(),
    "chatserve.model": set(),
    "chatserve.engine": {"vtensor", "chatserve.model"},
    "chatserve.server": {"chatserve.engine", "chatserve.text", "chatserve.model", "sessions"},
    "chatserve.page": {"chatserve.server", "chatserve.engine", "chatserve.text", "chatserve.model", "sessions"},
    "chatserve.terminal": set(),
    "chatserve.bench": set(),
    "chatserve.commands": {
        "chatserve.page",
        "chatserve.server",
        "chatserve.engine",
        "chatserve.text",
        "chatserve.model",
        "chatserve.terminal",
        "chatserve.bench",
        "sessions",
    },
    "chatserve.cli": {"chatserve.commands"},
}
"""Each room and the rooms it may look down into."""

FREE_OF_TORCH = {
    "chatserve.model.sampling",
    "chatserve.model.spec",
    "chatserve.engine.messages",
    "chatserve.engine.picture",
    "chatserve.engine.port",
    "chatserve.engine.client",
    "chatserve.engine.settings",
}
"""All of the engine and the model that a server may see."""

TORCHLESS = {"chatserve.server", "chatserve.page", "chatserve.text", "chatserve.terminal", "sessions"}
"""The rooms that see no more of it."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str | None:
    return next((room for room in BELOW if module == room or module.startswith(room + ".")), None)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, each name of a from-import that is itself a module included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downward_only(path: Path) -> None:
    room = room_of(module_of(path))
    if room is None:
        assert path.name in ("__init__.py", "__main__.py"), f"{path} is in no room"
        return
    seen = {other for name in imports(path) if (other := room_of(name)) is not None}
    assert seen <= BELOW[room] | {room}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_the_server_sees_values_only_of_engine_and_model(path: Path) -> None:
    if room_of(module_of(path)) in TORCHLESS:
        below = {name for name in imports(path) if name.startswith(("chatserve.model", "chatserve.engine"))}
        assert below <= FREE_OF_TORCH
        if "convert" not in path.name:
            assert not any(name.split(".")[0] in ("torch", "transformers") for name in imports(path))


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_import_hides_in_a_function_and_no_file_reads_the_environment(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
            assert not inner, f"an import inside {function.name}"
    if path.name not in ("cli.py", "convert.py"):  # the second is a program of its own
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"environ", "getenv", "argv"}, "only the command line reads argv and the environment"


def test_the_scheduler_is_policy_without_tensors() -> None:
    assert "torch" not in set(imports(ROOT / "chatserve" / "engine" / "scheduler.py"))


@pytest.mark.parametrize(
    "module", ["chatserve.cli", "chatserve.commands.serve", "chatserve.commands.worker", "chatserve.commands.bench"]
)
def test_who_talks_to_clients_waits_for_no_heavy_library(module: str) -> None:
    program = f"import sys, {module}; print(*({{'torch', 'transformers', 'triton', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
