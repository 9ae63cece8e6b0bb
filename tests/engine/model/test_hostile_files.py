"""Files from a stranger: every one is refused with a message that names the file, and none reaches the native runtime."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.model.cyb_file import CybFile
from engine.model.model import Model
from tests.engine.model.hostile import Document, edit, join, overwrite, split
from tests.engine.random_model import write_random_model

SHAPE: dict[str, Any] = {"particles": 40, "levels": (32, 64), "layers": 1, "links": 80}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_random_model(tmp_path_factory.mktemp("model") / "m.cyb", **SHAPE).read_bytes()


def refuse(tmp_path: Path, raw: bytes, match: str | None = None) -> None:
    path = tmp_path / "bad.cyb"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=match) as caught:
        CybFile(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600 + len(str(path))


def test_the_good_file_opens(tmp_path: Path, good: bytes) -> None:
    (tmp_path / "good.cyb").write_bytes(edit(good, lambda document: None))
    CybFile(tmp_path / "good.cyb")


def test_truncated_anywhere(tmp_path: Path, good: bytes) -> None:
    document, data = split(good)
    start = len(good) - len(data)
    edges = {0, 1, 7, 8, 9, 100, start - 1, start, start + 1, len(good) - 1}
    edges |= {start + entry["data_offsets"][side] for name, entry in document.items() if name[0] != "_" for side in (0, 1)}
    for length in sorted(edges - {len(good)}):
        refuse(tmp_path, good[:length])


def test_trailing_bytes(tmp_path: Path, good: bytes) -> None:
    refuse(tmp_path, good + b"\0", "the file holds")


def test_every_header_byte_flipped(tmp_path: Path, good: bytes) -> None:
    """No flipped bit of the length or of the header's text goes unnoticed."""
    end = 8 + len(json.dumps(split(good)[0], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    path = tmp_path / "flipped.cyb"
    for position in [*range(8), *range(8, end, 13)]:
        raw = bytearray(good)
        raw[position] ^= 1 << (position % 8)
        path.write_bytes(raw)
        with pytest.raises(UserError):
            CybFile(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_never_escapes(tmp_path: Path, good: bytes, data: st.DataObject) -> None:
    """Any damage is either refused with a UserError or leaves a file whose small tensors are in range."""
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.cyb"
    path.write_bytes(raw)
    try:
        file = CybFile(path)
    except UserError:
        return
    assert file.array("graph.links")[:, ::2].max(initial=0) < file.metadata.particles
    assert np.isfinite(file.array("focus")).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=400))
def test_random_bytes(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "noise.cyb"
    path.write_bytes(raw)
    with pytest.raises(UserError):
        CybFile(path)


def metadata_is(key: str, value: str) -> Callable[[Document], None]:
    return lambda document: document["__metadata__"].__setitem__(key, value)


def without(key: str) -> Callable[[Document], None]:
    return lambda document: document["__metadata__"].pop(key)


def tensor_is(name: str, key: str, value: Any) -> Callable[[Document], None]:
    return lambda document: document[name].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (metadata_is("format", "cyb/2"), "cyb/2"),
        (without("format"), "cyb/1"),
        (without("levels"), "levels"),
        (metadata_is("levels", "[32,48]"), "multiples"),
        (metadata_is("levels", "[64,32]"), "ascending"),
        (metadata_is("levels", "[32,32]"), "ascending"),
        (metadata_is("levels", "[]"), "levels"),
        (metadata_is("levels", "[32,64,96,128,160,192,224,256,288]"), "1 to 8"),
        (metadata_is("levels", "[32,9223372036854775808]"), "levels"),
        (metadata_is("levels", "[32.0,64.0]"), "levels"),
        (metadata_is("levels", "[true,64]"), "levels"),
        (metadata_is("levels", "[32,64"), "well-formed"),
        (metadata_is("levels", "[" * 500), "well-formed"),
        (metadata_is("ffn", "[64]"), "ffn"),
        (metadata_is("ffn", "[64,100]"), "multiples"),
        (metadata_is("layers", "0"), "layers"),
        (metadata_is("layers", "1000000000000"), "layers"),
        (metadata_is("layers", "2"), "layers.2"),
        (metadata_is("layers", '"1"'), "layers"),
        (metadata_is("head_size", "7"), "even"),
        (metadata_is("head_size", "48"), "head_size"),
        (metadata_is("epsilon", "0"), "epsilon"),
        (metadata_is("epsilon", "NaN"), "epsilon"),
        (metadata_is("epsilon", "1e999"), "epsilon"),
        (metadata_is("rope_base", "-1"), "rope_base"),
        (metadata_is("input_scale", "Infinity"), "input_scale"),
        (metadata_is("tau", "[1.0]"), "tau"),
        (metadata_is("tau", "[1.0,0.0]"), "tau"),
        (metadata_is("tau", "[1.0,1" + "0" * 400 + "]"), "tau"),
        (metadata_is("beta", "[0.0,null]"), "beta"),
        (metadata_is("embedding_type", "q4"), "embedding_type"),
        (metadata_is("weight_type", "f16"), "layers.1.block.1.q"),
        (metadata_is("particles", "41"), "vocabulary.offsets"),
        (metadata_is("particles", "-1"), "particles"),
        (metadata_is("particles", "99999999999999999999"), "particles"),
        (metadata_is("semcons", "5"), "vocabulary.offsets"),
        (metadata_is("controls", "7"), "controls"),
        (metadata_is("basis", "other"), "basis"),
        (metadata_is("name", ""), "name"),
        (metadata_is("name", "x" * 201), "name"),
        (metadata_is("policy", "[]"), "policy"),
        (metadata_is("policy", '{"inherit":"backfill","rule":"top","thresholds":[0.9,0.8]}'), "policy"),
        (metadata_is("policy", '{"inherit":"window:0","rule":"top","thresholds":[0.9]}'), "policy"),
        (metadata_is("policy", '{"inherit":"zeros","rule":"best","thresholds":[0.9]}'), "policy"),
        (metadata_is("policy", '{"inherit":"zeros","rule":"top","thresholds":[1' + "0" * 400 + "]}"), "policy"),
        (metadata_is("policy", '{"inherit":"zeros","rule":"top","rule":"top","thresholds":[0.9]}'), "duplicate"),
        (metadata_is("policy", '{"inherit":"zeros","rule":"top","thresholds":[0.9],"curve":[1]}'), "curve"),
        (metadata_is("verification", "[]"), "verification"),
        (metadata_is("verification", "{}"), "coefficients"),
        (metadata_is("verification", '{"coefficients":{}}'), "coefficients"),
        (metadata_is("verification", '{"coefficients":{"a\\nb":"1"}}'), "not a number"),
        (metadata_is("verification", '{"coefficients":{"a":1e7}}'), "not a number"),
        (metadata_is("verification", '{"coefficients":{"a":true}}'), "not a number"),
        (metadata_is("verification", '{"coefficients":{"a":1},"provenance":5}'), "provenance"),
        (metadata_is("verification", '{"coefficients":{"a":1},"error":"none"}'), "must be a number"),
        (metadata_is("provenance", "3"), "provenance"),
        (metadata_is("tensor_digests", "{}"), "tensor_digests"),
        (metadata_is("tensor_digests", "["), "tensor_digests"),
        (tensor_is("focus", "dtype", "F64"), "dtype"),
        (tensor_is("focus", "dtype", "U32"), "focus"),
        (tensor_is("focus", "dtype", ["F32"]), "dtype"),
        (tensor_is("focus", "shape", [1 << 62, 1 << 62]), "focus"),
        (tensor_is("focus", "shape", [2**32, 2**32, 0]), "focus"),
        (tensor_is("focus", "shape", [-1, -54]), "focus"),
        (tensor_is("focus", "shape", [1, 1, 1, 1, 54]), "shape"),
        (tensor_is("focus", "shape", [54.0]), "shape"),
        (tensor_is("focus", "shape", "54"), "shape"),
        (tensor_is("focus", "data_offsets", [0]), "data_offsets"),
        (tensor_is("focus", "data_offsets", [216, 0]), "data_offsets"),
        (tensor_is("focus", "data_offsets", [-216, 0]), "data_offsets"),
        (tensor_is("focus", "data_offsets", [1 << 64, (1 << 64) + 216]), "data_offsets"),
        (tensor_is("focus", "data_offsets", [4096, 4096 + 216]), "(overlaps|gap)"),
        (tensor_is("focus", "extra", 1), "nothing else"),
        (lambda document: document.update({"focus": 3}), "focus"),
        (lambda document: document.pop("focus"), "gap"),
        (lambda document: document.update({"__metadata__": []}), "__metadata__"),
        (lambda document: document.update({"x" * 300: document["focus"]}), "name"),
        (lambda document: document["__metadata__"].update({"extra": "\ud800"}), "Unicode"),
    ],
)
def test_headers(tmp_path: Path, good: bytes, change: Callable[[Document], None], match: str) -> None:
    document, data = split(good)
    change(document)
    sealed = isinstance(document["__metadata__"], dict)
    refuse(tmp_path, join(document, data, reseal=sealed), match)


def test_overlapping_tensors(tmp_path: Path, good: bytes) -> None:
    document, data = split(good)
    document["spectrum"]["data_offsets"] = [0, 256]
    refuse(tmp_path, join(document, data), "overlaps")


def test_swapped_matrices_are_off_their_pages(tmp_path: Path, good: bytes) -> None:
    """A packed matrix that starts off a page boundary is refused though everything else fits."""
    document, data = split(good)
    pad = next(name for name in sorted(document) if name.startswith("__pad."))
    begin, end = document[pad]["data_offsets"]
    after = next(name for name, entry in document.items() if name[0] != "_" and entry["data_offsets"][0] == end)
    size = document[after]["data_offsets"][1] - end
    document[after]["data_offsets"] = [begin, begin + size]
    document[pad]["data_offsets"] = [begin + size, begin + size + (end - begin)]
    refuse(tmp_path, join(document, data), "multiple of 4096")


def test_duplicate_names(tmp_path: Path, good: bytes) -> None:
    document, data = split(good)
    text = json.dumps(document)
    text = '{"focus":' + json.dumps(document["focus"]) + "," + text[1:]
    raw = text.encode()
    refuse(tmp_path, len(raw).to_bytes(8, "little") + raw + data, "duplicate name 'focus'")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'"x"',
        b"{}" + b" " * 100 + b"x",
        b"\xff\xfe{}",
        b'{"a":NaN}',
        b'{"a":' * 100_000,
        b'{"__metadata__":{}}',
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: bytes) -> None:
    refuse(tmp_path, len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize("length", [0, 1, 1 << 24, (1 << 24) + 1, 1 << 40, (1 << 64) - 1, (1 << 63) + 8])
def test_header_lengths(tmp_path: Path, good: bytes, length: int) -> None:
    refuse(tmp_path, length.to_bytes(8, "little") + good[8:], "header length")


@pytest.mark.parametrize(
    ("tensor", "offset", "value", "match"),
    [
        ("focus", 0, struct.pack("<f", float("nan")), "focus"),
        ("focus", 4, struct.pack("<f", -0.1), "focus"),
        ("focus", 8, struct.pack("<f", 5.0), "focus"),
        ("spectrum", 0, struct.pack("<f", float("inf")), "spectrum"),
        ("gain.weights", 0, struct.pack("<f", float("nan")), "gain.weights"),
        ("gain.bias", 4, struct.pack("<f", float("-inf")), "gain.bias"),
        ("vocabulary.offsets", 0, struct.pack("<I", 1), "offsets"),
        ("vocabulary.offsets", 4, struct.pack("<I", 0xFFFFFFFF), "offsets"),
        ("vocabulary.offsets", 8, struct.pack("<I", 0), "offsets"),
        ("vocabulary.text", 0, b"\xff", "UTF-8"),
        ("vocabulary.text", 0, b"\x80", "UTF-8"),
        ("vocabulary.text", 9, "é".encode(), "cut a character"),
        ("semcon.inverse", 0, struct.pack("<I", 6), "involution"),
        ("semcon.inverse", 0, struct.pack("<I", 0), "involution"),
        ("graph.links", 0, struct.pack("<I", 40), "graph.links"),
        ("graph.links", 4, struct.pack("<I", 6), "graph.links"),
        ("graph.hidden", 8, struct.pack("<I", 0xFFFFFFFF), "graph.hidden"),
        ("embedding.1", 0, struct.pack("<e", float("nan")), "embedding.1"),
        ("embedding.2", 30, struct.pack("<e", float("inf")), "embedding.2"),
        ("layers.1.block.2.down", 544, struct.pack("<e", float("-inf")), "block.2.down"),
    ],
)
def test_contents(tmp_path: Path, good: bytes, tensor: str, offset: int, value: bytes, match: str) -> None:
    refuse(tmp_path, overwrite(good, tensor, offset, value), match)


def test_numbers_in_padding_rows(tmp_path: Path, good: bytes) -> None:
    size = split(good)[0]["embedding.1"]["shape"][0]
    refuse(tmp_path, overwrite(good, "embedding.1", size - 1, b"\x05"), "rows that pad it")


def test_control_tokens_are_the_layouts(tmp_path: Path, good: bytes) -> None:
    size = split(good)[0]["vocabulary.text"]["shape"][0]
    refuse(tmp_path, overwrite(good, "vocabulary.text", size - 1, b"]"), "control token")


def test_gain_rule_without_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.cyb"
    with pytest.raises(UserError, match="gain"):
        write_random_model(path, **SHAPE, gain=False, rule="gain")
    assert not path.exists()


def test_not_files(tmp_path: Path) -> None:
    for path, match in (
        (tmp_path, "regular file"),
        (tmp_path / "none.cyb", "No such file"),
        (Path("/dev/zero"), "regular file"),
    ):
        with pytest.raises(UserError, match=match):
            CybFile(path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(UserError, match="regular file"):
        CybFile(fifo)
    with pytest.raises(UserError):
        Model.open(tmp_path / "nul\0byte")


def test_labels_cannot_steer_the_terminal(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "escape.cyb"
    path.write_bytes(edit(overwrite(good, "vocabulary.text", 0, b"\x1b[2J\x07"), metadata_is("name", "a\x1b[31m\u202eb")))
    model = Model.open(path)
    for shown in (model.vocabulary.label(0), model.name):
        assert shown.isprintable()
    assert "\\u{1b}" in model.vocabulary.label(0)
