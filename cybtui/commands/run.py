"""``cybtui run``: the swarm without a screen, and its figures."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cybtui.commands.console import natural, positive
from cybtui.commands.json_output import add_json_option, write_json
from engine.errors import UserError

if TYPE_CHECKING:
    from engine.model.model import Model
    from engine.model.policy import Policy

DEPTHS = ("auto", "router", "domain", "general", "speculate")
MAX_AGENTS = 1_000_000
PROGRESS_SECONDS = 1.0


def add_parser(subparsers: Any) -> None:
    """States the options of ``run``."""
    parser = subparsers.add_parser(
        "run",
        help="the same runtime without a screen",
        description="Runs a swarm without a screen and reports its figures. Without --rule, --thresholds and --inherit the "
        "model file's stored policy applies; --thresholds alone means --rule top.",
        allow_abbrev=False,
    )
    parser.add_argument("--agents", metavar="N", type=_agents, default=64, help="size of the swarm (default: 64)")
    parser.add_argument("--steps", metavar="M", type=positive, default=50, help="tokens each agent generates (default: 50)")
    parser.add_argument("--seed", metavar="S", type=natural, default=0, help="seed of every random choice (default: 0)")
    parser.add_argument("--model", metavar="F", help="model file (default: the embedded model)")
    parser.add_argument("--inherit", metavar="HOW", type=_inherit, help="what becomes of holes: backfill, window:N or zeros")
    parser.add_argument("--rule", choices=("top", "margin", "gain"), help="when a token goes deeper")
    parser.add_argument("--thresholds", metavar="T1,T2", type=_thresholds, help="one for each level but the deepest")
    parser.add_argument("--depth", choices=DEPTHS, default="auto", help="auto, or the level that answers every token")
    parser.add_argument("--budget", metavar="B", type=natural, default=20, help="most proposals an agent makes (default: 20)")
    parser.add_argument("--threads", metavar="T", type=positive, default=0, help="worker threads (default: the cores there are)")
    add_json_option(parser)
    parser.set_defaults(usage_error=parser.error)


def _agents(text: str) -> int:
    value = positive(text)
    if value > MAX_AGENTS:
        raise argparse.ArgumentTypeError(f"{text} is more than {MAX_AGENTS:,}")
    return value


def _usage(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _inherit(text: str) -> str:
    from engine.model.policy import parse_inherit

    _usage(parse_inherit, text)
    return text


def _thresholds(text: str) -> tuple[float, ...]:
    from engine.model.policy import parse_thresholds

    values: tuple[float, ...] = _usage(parse_thresholds, text)
    return values


def policy_of(args: argparse.Namespace, model: Model) -> Policy:
    """The policy that the options ask for on this model. Raises UserError where they and the model don't go together."""
    from engine.model.policy import default_policy
    from engine.runtime.swarm import TEMPERATURE

    stored = model.policy
    policy = stored
    if args.rule is not None or args.thresholds is not None:
        rule = args.rule or "top"
        if args.thresholds is not None:
            thresholds = args.thresholds
        elif rule == stored.rule:
            thresholds = stored.thresholds
        elif rule == "gain":
            raise UserError("--rule gain: the model file stores no thresholds for it; name them with --thresholds")
        else:
            thresholds = default_policy(model.levels).thresholds
        policy = replace(policy, rule=rule, thresholds=thresholds)
    if args.inherit is not None:
        policy = policy.with_inherit(args.inherit)
    if args.depth != "auto":
        if args.depth not in model.level_names:
            named = ", ".join(model.level_names)
            raise UserError(f"--depth {args.depth}: {model.name} has the levels {named}; use --depth auto")
        policy = policy.pinned(model.level_names.index(args.depth) + 1)
    return model.check_policy(replace(policy, temperature=TEMPERATURE))


def run(args: argparse.Namespace) -> int:
    """Runs the swarm, prints a summary and writes ``--json``."""
    if args.depth == "speculate":
        args.usage_error("--depth speculate: self-speculation is not in this release; use auto, router, domain or general")
    from engine.model.model import Model
    from engine.runtime.run import run as run_swarm

    model = Model.open(args.model)
    try:
        policy = policy_of(args, model)
    except UserError as error:
        args.usage_error(error.message)
    print(f"{model.name}: {args.agents} agents, {args.steps} tokens each, seed {args.seed}", file=sys.stderr)
    result = run_swarm(
        model, args.agents, args.steps, args.seed,
        policy=policy, budget=args.budget, threads=args.threads, progress=_progress(),
    )  # fmt: skip
    print(summary(result), file=sys.stderr)
    if args.json:
        write_json(args.json, result)
    return 0


def _progress() -> Any:
    told = [time.monotonic()]

    def progress(tick: int, generated: int, wanted: int) -> None:
        now = time.monotonic()
        if now - told[0] >= PROGRESS_SECONDS:
            told[0] = now
            print(f"tick {tick}: {generated:,} of {wanted:,} tokens", file=sys.stderr, flush=True)

    return progress


def summary(result: dict[str, Any]) -> str:
    """A few lines for people."""
    tokens, links, bandwidth = result["tokens"], result["links"], result["bandwidth"]
    shares = " / ".join(f"{count / max(1, tokens['generated']):.1%}" for count in tokens["by_level"])
    return "\n".join(
        (
            f"{tokens['generated']:,} tokens in {result['seconds']:.2f} s: {result['tokens_per_second']:,.0f} tokens/s, "
            f"step p99 {result['step_seconds']['p99'] * 1000:.0f} ms",
            f"answered by level: {shares}; arithmetic {result['arithmetic']['ratio']:.1%} of always deepest",
            f"bytes a token {bandwidth['bytes_per_token']:,.0f}: {bandwidth['savings']:.1f} times less than separate "
            f"processes, {bandwidth['savings_vs_batched']:.1f} times less than one batched server",
            f"links: {links['proposed']} proposed, {links['accepted']} accepted, {links['found']} of {links['hidden']} hidden "
            f"ones found (precision {links['precision']:.1%})"
            + ("" if links["calibrated"] else "; the file's verification is uncalibrated"),
            f"digest {result['digest']}",
        )
    )
