"""Candidate links: found by agents, verified, then accepted or rejected. One entry a link, whichever way it is read."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

NEW, VERIFIED, ACCEPTED, REJECTED = "new", "verified", "accepted", "rejected"
BELOW_HALF = "verification"  # reason of a headless rejection


@dataclass(slots=True)
class Entry:
    """A candidate link and what is known about it. ``features`` are those of ``verification.FEATURES``."""

    id: int  # -1 while it is a claim
    agent: int
    group: int
    goal: int
    source: int
    semcon: int  # number, not token
    target: int
    tick: int
    depth: int
    walked: float  # what the agent gave the target when it drew it
    status: str = NEW
    reason: str = ""
    probability: float = float("nan")
    features: tuple[float, ...] = ()
    path: tuple[int, ...] = ()  # particles of one path source … target
    agents: set[int] = field(default_factory=set)  # everyone who walked it
    decided_tick: int = -1
    revision: int = 0  # grows when anything shown changes
    promise: float = 0.0  # of a claim: what orders the queue for verification


class Proposals:
    """All proposals of a session, ids in order of proposal. Invariant: one entry a canonical key; counts match statuses."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.by_key: dict[int, int] = {}
        self.counts = {"proposed": 0, "verified": 0, "accepted": 0, "rejected": 0}
        self.open: dict[int, None] = {}  # ids that await a decision, in order
        self.ranking: list[tuple[float, int]] = []  # (-probability, id) of the open ones that are verified, ascending
        self.decided: list[int] = []  # ids in order of decision

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __getitem__(self, proposal: int) -> Entry:
        return self.entries[proposal]

    def find(self, key: int) -> Entry | None:
        """The entry of a canonical link key."""
        at = self.by_key.get(key)
        return None if at is None else self.entries[at]

    def add(self, key: int, entry: Entry) -> None:
        """A new entry; its id must be the next one."""
        assert entry.id == len(self.entries)
        assert key not in self.by_key
        self.entries.append(entry)
        self.by_key[key] = entry.id
        entry.agents.add(entry.agent)
        self.open[entry.id] = None
        self.counts["proposed"] += 1

    def set_verified(self, entry: Entry, probability: float, features: tuple[float, ...]) -> None:
        """Verification gives an entry its probability; the status changes at the first time only."""
        if entry.status == VERIFIED:
            self._unrank(entry)
        entry.probability, entry.features = probability, features
        entry.revision += 1
        if entry.status == NEW:
            entry.status = VERIFIED
            self.counts["verified"] += 1
        if entry.status == VERIFIED:
            insort(self.ranking, (-probability, entry.id))

    def _unrank(self, entry: Entry) -> None:
        at = bisect_left(self.ranking, (-entry.probability, entry.id))
        assert self.ranking[at][1] == entry.id
        del self.ranking[at]

    def restore(self, entry: Entry, status: str) -> None:
        """The status a saved entry had, without the order of decisions."""
        if entry.status == VERIFIED and status != VERIFIED:
            self._unrank(entry)
        entry.status = status
        if status in (ACCEPTED, REJECTED):
            self.counts[status] += 1
            self.open.pop(entry.id, None)

    def decide(self, entry: Entry, status: str, reason: str, tick: int) -> None:
        """Accepts or rejects; a decision may be changed."""
        assert status in (ACCEPTED, REJECTED)
        if entry.status in (ACCEPTED, REJECTED):
            self.counts[entry.status] -= 1
            self.decided.remove(entry.id)
        elif entry.status == VERIFIED:
            self._unrank(entry)
        entry.status, entry.reason, entry.decided_tick = status, reason, tick
        entry.revision += 1
        self.counts[status] += 1
        self.open.pop(entry.id, None)
        self.decided.append(entry.id)

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold (tests)."""
        assert len(self.by_key) == len(self.entries) == self.counts["proposed"]
        for status in (ACCEPTED, REJECTED):
            assert self.counts[status] == sum(entry.status == status for entry in self.entries)
        assert set(self.open) == {entry.id for entry in self.entries if entry.status in (NEW, VERIFIED)}
        verified = [(-entry.probability, entry.id) for entry in self.entries if entry.status == VERIFIED]
        assert self.ranking == sorted(verified)
        assert sorted(self.decided) == [entry.id for entry in self.entries if entry.status in (ACCEPTED, REJECTED)]
