"""The layout of an agent's context: which tokens each of the four layers holds, and at which positions.

Training, evaluation and the runtime all build their sequences here, so that a model only ever sees the layout it was trained on
(design §4 Vocabulary, §5). Every layer is padded to a page end; padding holds no position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAGE_POSITIONS = 16

CONTROL_TOKENS = (
    "<system>",
    "<group>",
    "<memory>",
    "<personal>",
    "<terminal>",
    "<instrumental>",
    "<immediate>",
    "<end>",
)


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """Token ids of the control tokens of a vocabulary whose controls start at ``first``."""

    first: int

    def __getitem__(self, name: str) -> int:
        return self.first + CONTROL_TOKENS.index(name)


def system_tokens(control: ControlTokens) -> list[int]:
    """System layer: one a machine; the terminal goals."""
    return [control["<system>"], control["<terminal>"]]


def group_tokens(
    control: ControlTokens,
    semcons: Sequence[int] = (),
    particles: Sequence[int] = (),
    facts: Sequence[tuple[int, int, int]] = (),
) -> list[int]:
    """Group layer: the instrumental goal (semcon and particle tokens) and the collective memory (facts as token triples)."""
    tokens = [control["<group>"]]
    if len(semcons) or len(particles):
        tokens += [control["<instrumental>"], *semcons, *particles]
    if len(facts):
        tokens.append(control["<memory>"])
        for source, semcon, target in facts:
            tokens += [source, semcon, target]
    return tokens


def personal_tokens(control: ControlTokens, particles: Sequence[int] = ()) -> list[int]:
    """Personal layer: the immediate goal and what the operator's steering named."""
    tokens = [control["<personal>"]]
    if len(particles):
        tokens += [control["<immediate>"], *particles]
    return tokens


def page_end(position: int) -> int:
    """First position of the page after the one that ends at or holds ``position``-1 (padding of a layer)."""
    return -(-position // PAGE_POSITIONS) * PAGE_POSITIONS


def absolute_positions(layers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Absolute positions of each layer's tokens: a layer starts at a page start."""
    start, positions = 0, []
    for tokens in layers:
        positions.append(list(range(start, start + len(tokens))))
        start = page_end(start + len(tokens))
    return positions
