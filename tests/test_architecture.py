"""The layering of the project, read from its imports: csrc <- engine <- cybtui, and who may know whom inside the engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 500
SOURCES = sorted(
    path for folder in ("engine", "cybtui", "themes", "csrc") for path in (ROOT / folder).rglob("*.py") if path.name != "_cyb_cdef.py"
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
NATIVE = sorted(path for kind in ("*.c", "*.h") for folder in ("csrc", "tests/native") for path in (ROOT / folder).rglob(kind))


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "themes":
        parts.insert(0, "cybtui")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere in it, `from a import b` as a and a.b."""
    package = module_of(path).split(".") if path.name == "__init__.py" else module_of(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def offenders(importer: str, imported: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if within(module_of(path), importer)
        for name in imports_of(path)
        if within(name, imported)
    ]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("engine", "cybtui"),
        ("engine", "textual"),
        ("engine", "rich"),
        ("engine.graph", "engine.runtime"),
        ("engine.compile", "engine.runtime"),
        ("engine.model", "engine.runtime"),
        ("engine.graph", "engine.compile"),
        ("engine.graph", "engine.model"),
        ("engine.graph", "engine.evaluate"),
        ("engine.native", "engine.runtime"),
        ("cybtui.widgets", "engine.native"),
        ("cybtui.screens", "engine.native"),
        ("cybtui.themes", "engine"),
    ],
)
def test_layering(importer: str, imported: str) -> None:
    assert offenders(importer, imported) == []


def test_widgets_know_the_snapshot_and_the_commands_only() -> None:
    allowed = ("engine.runtime.snapshot", "engine.runtime.commands", "engine.model.policy", "engine.errors")
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if within(module_of(path), "cybtui.widgets")
        for name in imports_of(path)
        if within(name, "engine") and name not in ("engine", "engine.runtime") and not any(within(name, ok) for ok in allowed)
    ]
    assert wrong == []


def test_only_the_native_files_know_cffi() -> None:
    knowing = {
        str(path.relative_to(ROOT)) for path in SOURCES for name in imports_of(path) if within(name, "cffi") or name.endswith("._cyb_cdef")
    }
    assert {name for name in knowing if not name.startswith("engine/native")} <= {"csrc/generate_cdef.py"}
    outside = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if not path.name.startswith("native")
        for name in imports_of(path)
        if within(name, "engine.native_library.ffi") or within(name, "engine.native_library.lib")
    ]
    assert outside == []


def test_mlx_is_imported_lazily_and_only_by_compile_and_backends() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for name in imports_of(path)
        if within(name, "mlx") and not within(module_of(path), "engine.compile") and not within(module_of(path), "engine.backends")
    ]
    assert wrong == []


def test_no_file_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in [*SOURCES, *TESTS, *NATIVE]
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LINES_MAX
    }
    assert long == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_nothing_is_left_to_be_written() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "Not" + "Implemented" + "Error", "XX" + "X")
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in [*SOURCES, *TESTS, *NATIVE]
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []
