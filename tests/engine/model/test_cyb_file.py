"""The writer and the reader agree, with each other and with the safetensors library; the bytes are stable."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UserError
from engine.model.cyb_file import CybFile, write_cyb_file
from engine.model.cyb_header import ALIGNMENT
from engine.model.model import Model
from tests.engine.packing import unpack
from tests.engine.random_model import random_contents, write_random_model

SHAPE: dict[str, Any] = {"particles": 40, "levels": (32, 64), "layers": 1, "links": 80}
GOLDEN = "39b63e2bb8db996d79e422816d9ea48906f6f3d3e903490716a3348ad2f2745f"


def test_round_trip(tmp_path: Path) -> None:
    metadata, tensors = random_contents(**SHAPE)
    path = tmp_path / "m.cyb"
    checksum = write_cyb_file(path, metadata, tensors)
    file = CybFile(path)
    assert file.checksum == checksum
    assert file.metadata == metadata
    for name, array in tensors.items():
        stored = file.array(name)
        assert stored.dtype == array.dtype
        assert np.array_equal(stored, array), name
        assert not stored.flags.writeable
    assert file.wrong_digests() == []


def test_same_input_same_bytes(tmp_path: Path) -> None:
    first = write_random_model(tmp_path / "a.cyb", **SHAPE).read_bytes()
    assert write_random_model(tmp_path / "b.cyb", **SHAPE).read_bytes() == first


def test_golden_bytes(tmp_path: Path) -> None:
    """A fixed file whose contents come from no random generator: its hash changes only when the format does."""
    metadata, tensors = random_contents(**SHAPE)
    for name, array in tensors.items():
        if name.startswith(("layers.", "embedding.")):
            tensors[name] = np.zeros_like(array)
    tensors["focus"] = np.full(len(tensors["focus"]), 1 / len(tensors["focus"]), np.float32)
    tensors["spectrum"] = np.ones_like(tensors["spectrum"])
    tensors["gain.weights"], tensors["gain.bias"] = (np.zeros_like(tensors[name]) for name in ("gain.weights", "gain.bias"))
    for name in ("graph.links", "graph.hidden", "graph.valid"):
        tensors[name] = np.array([[1, 2, 3]], np.uint32)
    path = tmp_path / "golden.cyb"
    write_cyb_file(path, metadata, tensors)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GOLDEN


def test_matrices_start_at_pages(tmp_path: Path) -> None:
    file = CybFile(write_random_model(tmp_path / "m.cyb", **SHAPE))
    raw = file.path.read_bytes()
    data_start = 8 + int.from_bytes(raw[:8], "little")
    for name in file.metadata.matrices():
        assert (data_start + file.tensors[name].begin) % ALIGNMENT == 0


def test_is_safetensors(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="the safetensors package is not installed")
    path = write_random_model(tmp_path / "m.cyb", **SHAPE)
    file = CybFile(path)
    loaded = library.load_file(path)
    assert set(loaded) == set(file.tensors)
    for name, array in loaded.items():
        assert np.array_equal(array, file.array(name)), name


def test_canonical_checksum(tmp_path: Path) -> None:
    raw = write_random_model(tmp_path / "m.cyb", **SHAPE).read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    stated = header["__metadata__"].pop("checksum")
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == stated


def test_empty_link_sets(tmp_path: Path) -> None:
    metadata, tensors = random_contents(**SHAPE)
    for name in ("graph.links", "graph.hidden", "graph.valid"):
        tensors[name] = np.zeros((0, 3), np.uint32)
    write_cyb_file(tmp_path / "m.cyb", metadata, tensors)
    model = Model.open(tmp_path / "m.cyb")
    assert model.graph.links.shape == model.hidden.shape == (0, 3)


@pytest.mark.parametrize("kind", ["q8", "f16"])
def test_packing_keeps_values(kind: str, tmp_path: Path) -> None:
    from tests.engine.packing import pack

    values = np.random.default_rng(1).normal(size=(37, 64)).astype(np.float32)
    back = unpack(kind, 37, 64, pack(kind, values))
    assert np.abs(back - values).max() < (0.02 if kind == "q8" else 0.002)


def test_write_keeps_the_old_file_when_it_fails(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.cyb", **SHAPE)
    before = path.read_bytes()
    metadata, tensors = random_contents(**SHAPE)
    del tensors["embedding.1"]
    with pytest.raises(UserError, match="embedding.1"):
        write_cyb_file(path, metadata, tensors)
    tensors = random_contents(**SHAPE)[1]
    tensors["focus"] = tensors["focus"] * 2
    with pytest.raises(UserError, match="focus"):
        write_cyb_file(path, metadata, tensors)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.cyb"]


def test_write_to_a_folder_that_is_not_there(tmp_path: Path) -> None:
    metadata, tensors = random_contents(**SHAPE)
    with pytest.raises(UserError, match="cannot be written"):
        write_cyb_file(tmp_path / "no" / "m.cyb", metadata, tensors)


def test_write_keeps_modes_and_follows_links(tmp_path: Path) -> None:
    target = write_random_model(tmp_path / "target.cyb", **SHAPE)
    assert stat.S_IMODE(target.stat().st_mode) & stat.S_IRUSR
    target.chmod(0o640)
    link = tmp_path / "link.cyb"
    os.symlink(target, link)
    write_random_model(link, **{**SHAPE, "seed": 2})
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert Model.open(target).name == "random 2"


def test_open_file_survives_replacement(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.cyb", **SHAPE)
    model = Model.open(path)
    before = model.file.array("embedding.1").copy()
    write_random_model(path, **{**SHAPE, "seed": 3})
    assert np.array_equal(model.file.array("embedding.1"), before)
    assert model.file.wrong_digests() == []


def test_verify_finds_a_changed_tensor(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.cyb", **SHAPE)
    file = CybFile(path)
    raw = bytearray(path.read_bytes())
    data_start = 8 + int.from_bytes(raw[:8], "little")
    raw[data_start + file.tensors["layers.1.block.2.up"].begin + 40] ^= 1
    pad = next(name for name in file.tensors if name.startswith("__pad."))
    raw[data_start + file.tensors[pad].begin] = 1
    path.write_bytes(raw)
    assert CybFile(path).wrong_digests() == [pad, "layers.1.block.2.up"]
