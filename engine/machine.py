"""What this machine is: processor, cores and memory that this process may use."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores that this process may run on and memory in bytes (0 where unknown); limits of a container included."""

    system: str
    architecture: str
    processor: str
    cores: int
    memory_total: int
    memory_available: int

    @property
    def text(self) -> str:
        """One line for people."""
        memory = f"{self.memory_total / (1 << 30):.1f} GiB" if self.memory_total else "unknown memory"
        return f"{self.processor}, {self.cores} cores, {memory}, {self.system} {self.architecture}"


def this_machine() -> Machine:
    """Looks at this machine; never fails."""
    total, available = _memory()
    return Machine(platform.system(), platform.machine(), _processor(), _cores(), total, available)


def memory_available() -> int:
    """Bytes of memory that can be had without pushing others out; 0 where unknown."""
    return _memory()[1]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _processor() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota, _, period = _read(CGROUP / "cpu.max").strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def _memory() -> tuple[int, int]:
    values: dict[str, int] = {}
    for line in _read(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        amount = value.split()
        if amount and amount[0].isdecimal():
            values[key] = int(amount[0]) * 1024
    total, available = values.get("MemTotal", 0), values.get("MemAvailable", 0)
    if not total:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError):
            return 0, 0
    limit, used = _read(CGROUP / "memory.max").strip(), _read(CGROUP / "memory.current").strip()
    if limit.isdecimal() and 0 < int(limit) < total:
        total = int(limit)
        available = min(available, max(0, total - int(used or 0))) if used.isdecimal() else min(available, total)
    return total, available
