"""The Python face of the native runtime: layouts, values across the border, lifetimes, errors."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import native
from engine.errors import UserError
from engine.model.cyb_metadata import packed_bytes
from engine.model.model import Model
from engine.model.policy import Policy, default_policy
from engine.native_library import ffi, lib
from tests.engine.packing import pack, unpack
from tests.engine.random_model import random_model

CID = bytes(range(36))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine(model: Model) -> Any:
    config = native.EngineConfig(pages=512, agents=8, groups=2, positions=256, threads=1, events=64, seed=7)
    with native.Engine(model.native, config) as engine:
        engine.set_policy(0, default_policy(3))
        yield engine


@pytest.mark.parametrize(
    ("record", "struct"),
    [
        (native.EngineConfig, "cyb_engine_config"),
        (native.Counters, "cyb_counters"),
        (native.Pool, "cyb_pool_info"),
        (native.AgentArrays, "cyb_snapshot"),
        (native.ScoreResult, "cyb_score_result"),
        (native.StepReport, "cyb_step_report"),
    ],
)
def test_records_name_every_field_of_the_header(record: Any, struct: str) -> None:
    assert set(record.__dataclass_fields__) == {name for name, _ in ffi.typeof(struct).fields}


def test_structured_dtypes_have_the_layout_of_c() -> None:
    assert native.TOKEN_DTYPE.itemsize == ffi.sizeof("cyb_token")
    token = ffi.new("cyb_token *")
    token.slot, token.confidence[2], token.alternatives[1], token.finished = 3, 0.25, 9, 1
    seen = np.frombuffer(ffi.buffer(token), native.TOKEN_DTYPE)[0]
    assert (seen["slot"], seen["confidence"][2], seen["alternatives"][1], seen["finished"]) == (3, 0.25, 9, 1)


@pytest.mark.parametrize("kind", ["q8", "f16"])
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (1, 32), (37, 96), (300, 64)])
def test_packing_is_that_of_the_header(kind: str, rows: int, columns: int) -> None:
    number = native.MATRIX_TYPES[kind]
    values = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
    assert native.matrix_bytes(number, rows, columns) == packed_bytes(kind, rows, columns)
    packed = native.matrix_pack(number, values)
    assert packed.nbytes == packed_bytes(kind, rows, columns)
    back = native.matrix_unpack(native.Matrix(number, rows, columns, packed))
    assert np.array_equal(back, unpack(kind, rows, columns, packed))
    assert np.abs(back - values).max() < (0.03 if kind == "q8" else 0.003)
    ours = pack(kind, values)
    assert np.array_equal(native.matrix_unpack(native.Matrix(number, rows, columns, ours)), unpack(kind, rows, columns, ours))


def test_shapes_that_cannot_be_packed() -> None:
    assert native.matrix_bytes(native.Q8, 16, 33) == 0
    assert native.matrix_bytes(99, 16, 32) == 0
    with pytest.raises(native.NativeError) as caught:
        native.matrix_pack(native.Q8, np.zeros((16, 33), np.float32))
    assert caught.value.status == native.INVALID_ARGUMENT
    assert caught.value.text


def test_csr_multiply() -> None:
    random = np.random.default_rng(5)
    dense = np.where(random.random((50, 50)) < 0.2, random.normal(size=(50, 50)), 0).astype(np.float32)
    rows, columns = np.nonzero(dense)
    offsets = np.searchsorted(rows, np.arange(51)).astype(np.uint64)
    x = random.normal(size=(50, 7)).astype(np.float32)
    one = native.csr_multiply(offsets, columns.astype(np.uint32), dense[rows, columns], x, threads=1)
    two = native.csr_multiply(offsets, columns.astype(np.uint32), dense[rows, columns], x, threads=2)
    assert np.array_equal(one, two)
    assert np.allclose(one, dense @ x, atol=1e-5)
    vector = native.csr_multiply(offsets, columns.astype(np.uint32), dense[rows, columns], x[:, 0])
    assert np.allclose(vector, dense @ x[:, 0], atol=1e-5)
    with pytest.raises(ValueError, match="columns"):
        native.csr_multiply(offsets, columns.astype(np.uint32), dense[rows, columns], x[:49])


def test_instruction_sets() -> None:
    assert native.isa_supported(native.ISA_REFERENCE)
    assert native.isa_supported(native.isa_best())
    assert native.isa_name(native.ISA_REFERENCE) == "reference"
    assert native.isa_number("avx2") == native.ISA_AVX2
    with pytest.raises(UserError, match="instruction set"):
        native.isa_number("mmx")


def test_numbers_are_those_of_the_header() -> None:
    for index, name in enumerate(native.MUTATIONS):
        assert getattr(lib, f"CYB_MUTATE_{name.upper()}") == index
    for name in (
        "PAGE_POSITIONS",
        "QUANT_GROUP",
        "PANEL_ROWS",
        "VOCAB_TILE",
        "CANDIDATES",
        "GAIN_FEATURES",
        "LEVELS_MAX",
        "Q8",
    ):
        assert getattr(lib, f"CYB_{name}") == getattr(native, name)
    for name in ("INVALID_ARGUMENT", "OUT_OF_MEMORY", "POOL_FULL", "NOT_FOUND", "BAD_STATE", "UNSUPPORTED", "INTERNAL"):
        assert getattr(lib, f"CYB_{name}") == getattr(native, name)
    assert len(native.EVENT_KINDS) - 1 == lib.CYB_EVENT_REFUSED
    assert lib.CYB_AGENT_PREEMPTED == native.STATE_PREEMPTED
    assert len(native.WEIGHT_NAMES) == lib.CYB_W_COUNT
    assert [native.WEIGHT_NAMES.index(name) for name in ("q", "o", "down")] == [lib.CYB_W_Q, lib.CYB_W_O, lib.CYB_W_DOWN]


def test_mutations_that_are_not_known() -> None:
    with pytest.raises(UserError, match="merge_order"):
        native.mutate("nonsense")


def test_policy_round_trip(engine: native.Engine) -> None:
    policy = Policy("window", 5, "margin", (0.5, 0.25), 1, 2, 0.5)
    engine.set_policy(1, policy)
    assert engine.policy(1) == policy
    with pytest.raises(UserError, match="thresholds"):
        engine.set_policy(1, Policy(thresholds=(0.5,)))


def test_one_agent_from_birth_to_death(engine: native.Engine, model: Model) -> None:
    control = model.vocabulary.control
    system = engine.create_context(0, native.LAYER_SYSTEM, [control["<system>"], control["<terminal>"]])
    slot = engine.create_agent(0, CID, goal=3, serial=11)
    engine.begin(slot, system, [control["<personal>"]], [5, model.vocabulary.semcon_token(0)], stop_after=4)
    seen = []
    for _ in range(4):
        report = engine.tick()
        tokens = engine.tick_tokens()
        assert report.tick_complete
        assert list(tokens["slot"]) == [slot]
        assert 0 <= tokens["token"][0] < len(model.vocabulary)
        assert 1 <= tokens["depth"][0] <= 3
        seen.append(int(tokens["token"][0]))
    assert tokens["finished"][0] == 1
    ids, depths = engine.agent_tokens(slot)
    assert ids.tolist() == [5, model.vocabulary.semcon_token(0), *seen]
    assert depths[:2].tolist() == [0, 0]
    assert (depths[2:] > 0).all()
    agent = engine.agent(slot)
    assert (agent.id, agent.goal) == (CID, 3)
    counters = engine.counters()
    assert counters.generated == 4 == sum(counters.by_level)
    assert len(counters.by_level) == 3
    assert counters.copies == 0
    pool = engine.pool()
    assert 0 < pool.pages_used <= pool.pages_total == 512
    page_map = engine.pool_map()
    assert (page_map.state > 0).sum() == pool.pages_used
    arrays = engine.snapshot()
    assert arrays.state[slot] == native.STATE_IDLE
    assert arrays.generated[slot] == 4
    assert arrays.by_level[slot].sum() == 4
    ids, addresses, layer = engine.agent_pages(slot, 0)
    assert layer == native.LAYER_SYSTEM
    assert ids[0] != native.HOLE
    assert addresses[0] != 0
    assert slot in engine.pool_holders(int(ids[0]))
    assert engine.agent_kv(slot, 0, 1) is not None
    assert np.all(np.diff(engine.events()["sequence"].astype(np.int64)) > 0)
    engine.check()
    engine.kill(slot)
    assert engine.snapshot().state[slot] == native.STATE_FREE


def test_snapshot_reuses_its_buffers(engine: native.Engine) -> None:
    assert engine.snapshot().state is engine.snapshot().state


def test_score_shapes(engine: native.Engine, model: Model) -> None:
    semcon = model.vocabulary.semcon_token(1)
    queries = [[1, semcon], [2, semcon], [3, semcon]]
    result = engine.score(queries, default_policy(3).pinned(2), targets=[[4], [5, 6], []], filters=[[7], [], [8]], want=("best", "logits"))
    assert result.target_rank is not None
    assert result.target_logprob is not None
    assert result.best is not None
    assert result.best_probability is not None
    assert result.logits is not None
    assert result.target_rank.shape == result.target_logprob.shape == (3,)
    assert (result.depth == 2).all()
    assert np.array_equal(result.logits.argmax(axis=1), result.best[:, 0])
    assert (np.diff(result.best_probability, axis=1) <= 0).all()
    assert result.gain_features is None
    again = engine.score(native.ragged(queries), default_policy(3).pinned(2))
    assert again.target_rank is None
    with pytest.raises(ValueError, match="targets"):
        engine.score(queries, default_policy(3), targets=[[1]])


def test_reference_forward_shapes(model: Model) -> None:
    tokens, positions = [1, model.vocabulary.semcon_token(0), 2], [0, 1, 16]
    kv, logits = native.reference_forward(model.native, 2, tokens, positions)
    assert kv is not None
    assert logits is not None
    assert kv.shape == (model.layers, 2, 3, 64)
    assert logits.shape == (3, len(model.vocabulary))
    assert np.isfinite(logits).all()
    lower, _ = native.reference_forward(model.native, 1, tokens, positions, want_logits=False)
    assert lower is not None
    assert np.array_equal(kv[..., :32], lower)
    for level in (0, 4):
        with pytest.raises(ValueError, match="level"):
            native.reference_forward(model.native, level, tokens, positions)


def test_bad_calls_say_why(engine: native.Engine) -> None:
    for call in (
        lambda: engine.begin(7, 0, [], [1]),
        lambda: engine.create_context(99, native.LAYER_GROUP, [1]),
        lambda: engine.create_context(0, native.LAYER_SYSTEM, [1 << 30]),
        lambda: engine.kill(1000),
        lambda: engine.set_goal(3, 1),
        lambda: engine.agent_pages(5, 0),
        lambda: engine.copy_page(1 << 20),
    ):
        with pytest.raises(native.NativeError) as caught:
            call()
        assert caught.value.text
        assert caught.value.status not in (0, native.INTERNAL)
    with pytest.raises(ValueError, match="36 bytes"):
        engine.create_agent(0, b"short")


def test_the_engine_keeps_its_model_alive(tmp_path: Path) -> None:
    engine = native.Engine(random_model(tmp_path).native, native.EngineConfig(pages=64, agents=2, positions=128, threads=1))
    gc.collect()
    engine.set_policy(0, default_policy(3))
    slot = engine.create_agent(0, CID)
    engine.begin(slot, 0, [], [1], stop_after=2)
    engine.tick()
    engine.tick()
    assert engine.counters().generated == 2
    engine.close()
    engine.close()
    with pytest.raises(native.NativeError, match="closed"):
        engine.step()
