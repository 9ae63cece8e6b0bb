"""``cybtui eval``: filtered link prediction at every level and at dynamic depth."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cybtui.commands.console import natural
from cybtui.commands.json_output import add_json_option, write_json


def add_parser(subparsers: Any) -> None:
    """States the options of ``eval``."""
    parser = subparsers.add_parser(
        "eval",
        help="filtered link prediction of a model",
        description="Filtered link prediction in both directions, at every level and at dynamic depth.",
        allow_abbrev=False,
    )
    parser.add_argument("model", nargs="?", metavar="F.cyb", help="model file (default: the embedded model)")
    parser.add_argument("--triples", metavar="T", type=Path, help="test links, a triples file")
    parser.add_argument("--known", metavar="K", type=Path, nargs="+", default=[], help="links that filter, triples files")
    parser.add_argument("--hidden", action="store_true", help="test on the links hidden when the model was compiled")
    parser.add_argument("--threads", metavar="T", type=natural, default=0, help="worker threads (default: the cores there are)")
    add_json_option(parser)
    parser.set_defaults(usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Evaluates and prints a table or JSON."""
    if bool(args.triples) == args.hidden:
        args.usage_error("name test links with --triples FILE, or take the model's own with --hidden")
    if args.known and args.hidden:
        args.usage_error("--known goes with --triples; the model's hidden links are filtered by all that its file holds")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from engine.errors import UserError
    from engine.evaluate.link_prediction import evaluate
    from engine.evaluate.queries import queries_from_links, queries_from_triples
    from engine.graph.triples import iterate_triples
    from engine.model.model import Model

    model = Model.open(args.model)
    if args.hidden:
        if len(model.hidden) == 0:
            raise UserError(f"{model.path}: no links were hidden when it was compiled; name test links with --triples")
        queries = queries_from_links(model, model.hidden, [model.graph.links, model.valid])
    else:
        triples = list(iterate_triples(args.triples))
        if not triples:
            raise UserError(f"{args.triples}: no triples found")
        known = [triple for path in args.known for triple in iterate_triples(path)]
        queries = queries_from_triples(model, triples, known)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(file=sys.stderr), transient=True
    ) as bar:
        task = bar.add_task("evaluate", total=1.0)
        result = evaluate(model, queries, args.threads, lambda title, share: bar.update(task, description=title, completed=share))
    result = {"model": {"name": model.name, "digest": model.digest, "basis": model.basis}, **result}
    if args.json:
        write_json(args.json, result)
    else:
        _print(Console(), result)
    return 0


def _print(console: Any, result: dict[str, Any]) -> None:
    from rich.table import Table

    spectral = "forward" in result
    table = Table(title=f"{result['model']['name']} · {result['queries']:,} queries · {result['seconds']:.1f} s", title_justify="left")
    for column in ("", "MRR", "H@1", "H@3", "H@10", "share by level", "arithmetic"):
        table.add_column(column, justify="left" if column == "" else "right")
    sections = [("direct e_pᵀ P_s e_q" if spectral else "pinned", result["levels"])]
    if spectral:
        sections.append(("transformer", result["forward"]))
    for title, rows in sections:
        for row in rows:
            cost = f"{row['cost']:.3f}" if "cost" in row else ""
            figures = [f"{row[name]:.4f}" for name in ("mrr", "hits1", "hits3", "hits10")]
            table.add_row(f"{title} {row['width']}", *figures, "", cost)
    for row in result["dynamic"]:
        thresholds = ", ".join(f"{value:g}" for value in row["thresholds"])
        share = " / ".join(f"{value:.0%}" for value in row["share"])
        table.add_row(
            f"{row['rule']} {thresholds} {row['inherit']}",
            f"{row['mrr']:.4f}",
            "",
            "",
            f"{row['hits10']:.4f}",
            share,
            f"{row['cost']:.3f}",
        )
    console.print(table)
    console.print("arithmetic: multiply-adds over those of the deepest level, fills and output product included")
