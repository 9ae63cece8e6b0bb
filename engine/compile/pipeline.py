"""source → focus → spectrum → weights → ``.cyb`` (design §1), with progress, and resumable: finished stages are kept until it is done."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.closed_form import closed_form, layer_count
from engine.compile.export import export
from engine.errors import UserError
from engine.files import write_atomically
from engine.graph.cybergraph import Cybergraph
from engine.graph.focus import Focus, compute_focus, vocabulary_focus
from engine.graph.metrics import cut_by_focus, graph_cid
from engine.graph.spectrum import Spectrum, compute_spectrum, focus_adjacency
from engine.graph.split import hold_out
from engine.graph.triples import iterate_triples, read_triples
from engine.graph.wordnet import read_wordnet
from engine.model.context import CONTROL_TOKENS

Progress = Callable[[str, float], None]
FORMATS = ("auto", "triples", "wordnet")
LATER_FORMATS = ("vault", "cyberlinks")
NAME_CELLS = 1 << 31  # particles × name features that fine-tuning holds in memory, two bytes each
STAGE_VERSION = 2  # of what the stages compute: raise it when that changes


@dataclass(frozen=True)
class CompileOptions:
    """What ``cybtui compile`` was asked for. ``particles`` > 0 cuts the graph to so many of highest focus."""

    source: Path
    output: Path
    levels: tuple[int, ...] = (64, 256, 512)
    format: str = "auto"
    hold_out: float = 0.0
    valid: Path | None = None
    seed: int = 0
    finetune: float = 0.0
    finetune_steps: int = 0
    particles: int = 0
    name: str = ""
    measure_policy: bool = True


def check_levels(levels: Sequence[int]) -> tuple[int, ...]:
    """Ascending multiples of 32 and of the first, at most 8. Raises UserError."""
    widths = tuple(levels)
    if not 1 <= len(widths) <= 8:
        raise UserError(f"--levels names {len(widths)} widths: 1 to 8 are possible")
    for before, width in zip((0, *widths[:-1]), widths, strict=True):
        if width <= before or width % 32 or width % widths[0] or width > 4096:
            raise UserError(f"--levels: {width} is not an ascending multiple of 32 and of the first width, at most 4096")
    return widths


def read_source(path: Path, format_: str) -> tuple[Cybergraph, str]:
    """The graph and the format it was taken for. Raises UserError."""
    if format_ in LATER_FORMATS:
        raise UserError(f"--format {format_} is not in this release: triples and wordnet are")
    if format_ not in FORMATS:
        raise UserError(f"--format {format_} is not known: {', '.join(FORMATS)}")
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    if format_ == "auto":
        format_ = "wordnet" if path.is_dir() and (path / "data.noun").is_file() else "triples"
        if path.is_dir() and format_ == "triples":
            raise UserError(f"{path}: a folder that is not a WordNet database; name a triples file or the folder with data.noun")
    return (read_wordnet(path), format_) if format_ == "wordnet" else (read_triples(path), format_)


class Stages:
    """Results of finished stages, kept beside the output under the digest of everything they depend on."""

    def __init__(self, output: Path, key: dict[str, Any]) -> None:
        digest = hashlib.sha256(json.dumps([STAGE_VERSION, key], sort_keys=True).encode()).hexdigest()[:16]
        self.folder = output.parent / f".{output.name}.{digest}.stages"

    def get(self, name: str) -> dict[str, NDArray[Any]] | None:
        try:
            with np.load(self.folder / f"{name}.npz", allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except (OSError, ValueError, KeyError, EOFError):
            return None

    def put(self, name: str, **arrays: NDArray[Any] | float | int) -> None:
        import io

        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        try:
            self.folder.mkdir(exist_ok=True)
            write_atomically(self.folder / f"{name}.npz", [buffer.getvalue()])
        except OSError:
            pass  # a stage that cannot be kept is computed again after a kill: slower, not wrong

    def clear(self) -> None:
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


def valid_links(path: Path, graph: Cybergraph) -> NDArray[np.int64]:
    """Links of a triples file between particles and semcons of the graph, (n, 3); others are left out."""
    particles = {label: index for index, label in enumerate(graph.particles)}
    semcons = {label: index for index, label in enumerate(graph.semcons)}
    rows = [
        (particles[source], semcons[semcon], particles[target])
        for source, semcon, target in iterate_triples(path)
        if source in particles and target in particles and semcon in semcons
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def compile_source(options: CompileOptions, progress: Progress | None = None) -> dict[str, Any]:
    """Compiles a source into a model file and returns what ``compile --json`` prints (cli.md). Raises UserError."""
    levels = check_levels(options.levels)
    if not 0 <= options.hold_out < 1:
        raise UserError(f"--hold-out {options.hold_out}: a fraction of at least 0 and below 1 is needed")
    if not options.output.parent.is_dir():
        raise UserError(f"{options.output}: the folder {options.output.parent} does not exist")
    report = progress or (lambda stage, share: None)
    seconds: dict[str, float] = {}

    def timed(name: str, since: float) -> None:
        seconds[name] = seconds.get(name, 0.0) + time.monotonic() - since

    report("read", 0.0)
    whole, taken_for = read_source(options.source, options.format)
    started = time.monotonic()
    if options.particles and options.particles < whole.particle_count:
        whole = cut_by_focus(whole, compute_focus(whole).values, options.particles)
    cid = graph_cid(whole)
    graph, hidden = hold_out(whole, options.hold_out, options.seed)
    if options.valid is not None:
        valid = valid_links(options.valid, graph)
    else:
        graph, valid = hold_out(graph, 0.02, options.seed + 1) if options.finetune or options.finetune_steps else (graph, hidden[:0])
    focus: Focus = compute_focus(graph)
    timed("focus", started)
    stages = Stages(options.output, {"graph": cid, "levels": levels, "seed": options.seed, "hold": options.hold_out, "n": len(graph.links)})
    started = time.monotonic()
    kept = stages.get("spectrum")
    if kept is None:
        matrix = focus_adjacency(graph, focus.values)
        spectrum = compute_spectrum(matrix, levels, options.seed, report)
        residual, rank = np.array(spectrum.residual), spectrum.effective_rank
        stages.put("spectrum", values=spectrum.values, vectors=spectrum.vectors, residual=residual, rank=rank)
    else:
        spectrum = Spectrum(kept["values"], kept["vectors"], tuple(kept["residual"].tolist()), float(kept["rank"]))
    timed("spectrum", started)
    started = time.monotonic()
    report("weights", 0.0)
    layers = layer_count(graph)
    built = closed_form(graph, spectrum.vectors, spectrum.values, levels, layers, options.seed)
    weights, basis = built.weights, "spectral"
    timed("weights", started)
    everything = vocabulary_focus(graph, focus.values, len(CONTROL_TOKENS))
    if options.finetune > 0 or options.finetune_steps > 0:
        from engine.compile.finetune import Recipe, finetune
        from engine.compile.names import name_features

        started = time.monotonic()
        weights = finetune(
            graph.directed(),
            graph.inverse,
            graph.particle_count,
            spectrum.vectors * np.maximum((1 + spectrum.values) / 2, 0.05),
            everything,
            Recipe(levels=levels),
            options.finetune,
            options.seed,
            lambda step, share, loss: report(f"fine-tune step {step} loss {loss:.3f}", share),
            steps=options.finetune_steps,
            names=name_features(graph.names or [[label] for label in graph.particles], NAME_CELLS // graph.particle_count),
        )
        basis = "tuned"
        timed("finetune", started)
    policy: dict[str, Any] = {
        "inherit": "backfill",
        "rule": "top",
        "thresholds": [0.9, 0.85, *[0.8] * 6][: len(levels) - 1],
        "curve": [],
    }
    provenance = {
        "source": whole.source_name or options.source.name,
        "format": taken_for,
        "graph_cid": cid,
        "seed": options.seed,
        "command": " ".join(["cybtui", *sys.argv[1:]]),
        "levels": list(levels),
    }
    report("export", 0.0)
    digest = export(
        options.output,
        options.name or options.output.stem,
        basis,
        weights,
        graph,
        everything,
        hidden,
        valid,
        policy,
        provenance,
        embedding_type="f16" if basis == "spectral" else "q8",
    )
    if basis == "tuned" and len(valid) and options.measure_policy:
        from engine.compile.policy import measure_and_store

        policy = measure_and_store(options.output)
    stages.clear()
    return {
        "particles": graph.particle_count,
        "cyberlinks": len(graph.links),
        "semcons": graph.semcon_count,
        "neurons": len(graph.neurons),
        "effective_rank": spectrum.effective_rank,
        "kappa": focus.kappa,
        "iterations": focus.iterations,
        "levels": list(levels),
        "layers": weights.layers,
        "heads": [width // weights.head_size for width in levels],
        "dropped_energy": built.dropped_mean,
        "dropped_energy_by_semcon": built.dropped_energy,
        "residual": max(spectrum.residual, default=0.0),
        "hidden": len(hidden),
        "valid": len(valid),
        "policy": policy,
        "basis": basis,
        "format": taken_for,
        "seconds": {**{"focus": 0.0, "spectrum": 0.0, "weights": 0.0, "finetune": 0.0}, **seconds},
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "graph_cid": cid,
        "digest": digest,
        "file": str(options.output),
        "notices": list(whole.notices),
    }
