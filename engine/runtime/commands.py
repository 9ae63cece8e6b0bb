"""What the interface may ask of the runtime.

Every command gets a receipt: requested, then applied at tick N or refused with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from engine.runtime.snapshot import Snapshot, TokenRecord


@dataclass(frozen=True, slots=True)
class Command:
    """Base of all commands."""


@dataclass(frozen=True, slots=True)
class Spawn(Command):
    count: int = 1
    group: int = 0
    goal: int = -1  # GoalInfo.id; -1 = spread over the group's immediate goals


@dataclass(frozen=True, slots=True)
class Fork(Command):
    agent: int


@dataclass(frozen=True, slots=True)
class Pause(Command):
    agents: tuple[int, ...]  # () = all


@dataclass(frozen=True, slots=True)
class Resume(Command):
    agents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kill(Command):
    agents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Steer(Command):
    """Text is resolved to particles by label, or refused with the nearest labels."""

    agents: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Retarget(Command):
    agents: tuple[int, ...]
    goal: int


@dataclass(frozen=True, slots=True)
class CreateGoal(Command):
    """A new immediate (or instrumental) goal under ``parent``; text names particles (a domain) by label."""

    parent: int
    text: str


@dataclass(frozen=True, slots=True)
class SetDepth(Command):
    agents: tuple[int, ...]
    minimum: int  # 0,0 = the group's
    maximum: int


@dataclass(frozen=True, slots=True)
class SetPolicy(Command):
    """Fields that are None stay as they are. inherit: backfill, zeros, window:N. rule: top, margin, gain."""

    group: int
    thresholds: tuple[float, ...] | None = None
    rule: str | None = None
    inherit: str | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Accept(Command):
    proposal: int


@dataclass(frozen=True, slots=True)
class Reject(Command):
    proposal: int
    reason: str = "operator"


@dataclass(frozen=True, slots=True)
class SetRunning(Command):
    """False halts the step loop between ticks; True goes on."""

    running: bool


@dataclass(frozen=True, slots=True)
class SaveSession(Command):
    name: str = ""


@dataclass(slots=True)
class Receipt:
    """Filled in by the step thread. status: requested, applied, refused."""

    command: Command
    status: str = "requested"
    tick: int = -1
    message: str = ""
    result: dict[str, object] = field(default_factory=dict)  # e.g. {"agents": (12, 13)}


class Source(Protocol):
    """Where panes get their data: a live runtime or a replayed recording."""

    def snapshot(self) -> Snapshot:
        """Latest picture; cheap, never blocks."""

    def stream(self, agent: int, limit: int = 500) -> list[TokenRecord]:
        """Latest tokens of one agent, oldest first."""

    def label(self, token: int) -> str: ...

    def complete_label(self, prefix: str, limit: int = 20) -> list[str]:
        """Particle labels that start with or contain ``prefix``, for input completion."""

    def submit(self, command: Command) -> Receipt: ...

    def close(self) -> None:
        """Stops the step thread, saves the session, frees the native engine. Idempotent."""
