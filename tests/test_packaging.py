"""Wheel, sdist and editable installs, each made and used; and the install that finds no compiler.

These build the project and fetch its dependencies, so they run where ``CYBTUI_TEST_PACKAGING`` is set, as ``.ci/run`` does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("CYBTUI_TEST_PACKAGING"), reason="CYBTUI_TEST_PACKAGING is not set")

ROOT = Path(__file__).parent.parent
USE = "import engine.native as native, cybtui.themes, cybtui; print(native.version(), native.library_path(), cybtui.__file__)"


def execute(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    settings.pop("PYTHONPATH", None)
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=folder, env=settings, check=False)


def succeed(*command: str | Path, folder: Path, **environment: str) -> str:
    done = execute(*command, folder=folder, **environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the project's sdist, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*cache", ".git", ".venv", "venv", "build", "dist", "__pycache__", "_cyb_cdef.py", "libcyb.*")
    shutil.copytree(ROOT, source, ignore=ignored)
    succeed(sys.executable, "-m", "build", "--outdir", folder, source, folder=folder)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    succeed(sys.executable, "-m", "venv", folder, folder=folder)
    return folder / "bin" / "python"


def works(python: Path, folder: Path) -> str:
    """The installed cybtui answers from a folder that is not the project; returns what USE prints."""
    assert succeed(python.parent / "cybtui", "--version", folder=folder).startswith("cybtui ")
    done = execute(python.parent / "cybtui", "doctor", "--json", "-", folder=folder)
    report = json.loads(done.stdout)
    assert report["native"]["simd"] in ("reference", "avx2", "neon"), report["problems"]
    return succeed(python, "-c", USE, folder=folder)


def test_wheel_contents(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert "-py3-none-" in wheel.name
    assert "any" not in wheel.name.split("-")[-1]
    names = set(zipfile.ZipFile(wheel).namelist())
    library = "engine/libcyb.dylib" if sys.platform == "darwin" else "engine/libcyb.so"
    assert {library, "engine/_cyb_cdef.py", "engine/data/WORDNET-LICENSE.txt", "cybtui/cli.py"} <= names
    assert any(name.startswith("cybtui/themes/") for name in names)
    embedded = (ROOT / "engine" / "data" / "default.cyb").is_file()
    assert ("engine/data/default.cyb" in names) == embedded
    assert {name.split("/")[0].split("-")[0] for name in names} == {"cybtui", "engine"}
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_sdist_contents(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    wanted = {"csrc/CMakeLists.txt", "csrc/include/cyb.h", "csrc/generate_cdef.py", "pyproject.toml", "LICENSE", "README.md"}
    assert wanted <= names
    assert not any(name.endswith((".so", ".pyc", "_cyb_cdef.py")) for name in names)


def test_wheel_installs_and_works(built: Path, python: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    succeed(python, "-m", "pip", "install", "--quiet", wheel, folder=tmp_path)
    assert "site-packages" in works(python, tmp_path)


def test_editable_installs_and_works(built: Path, python: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    succeed(python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", "-e", source, folder=tmp_path)
    assert str(source / "cybtui") in works(python, tmp_path)


def test_no_compiler_is_one_clear_sentence(built: Path, python: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    empty = tmp_path / "bin"
    empty.mkdir()
    command = (python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, sdist)
    done = execute(*command, folder=tmp_path, PATH=str(empty), CC="")
    assert done.returncode != 0
    assert "cybtui needs a C compiler: install gcc or clang" in done.stdout + done.stderr
