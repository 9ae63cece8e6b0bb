"""Pauses that the interpreter puts between a key and its paint, and how they are kept short.

A full garbage collection looks at every object: 55 to 95 ms with the embedded model open (measured), many times a minute while
panes are drawn. Here collections come while no key does, look at what is newer than the last one only, and freeze what stays.
A thread that wants the GIL waits for one switch interval, several times a key.
"""

from __future__ import annotations

import gc
import sys
import time

THRESHOLDS = (3_000, 100_000, 1_000)  # under a held key only the youngest objects are collected, 1 to 3 µs each
SWITCH_SECONDS = 0.001
REST_SECONDS = 0.7  # without a key
SETTLE_SECONDS = 2.0
DEEP_REST_SECONDS, DEEP_SECONDS = 30.0, 600.0  # now and then what was frozen is looked at too
DEFAULT_THRESHOLDS, DEFAULT_SWITCH_SECONDS = gc.get_threshold(), sys.getswitchinterval()


class Pauses:
    """Collects when the operator rests. ``begin`` once the model is open, ``key`` at each key, ``rest`` often."""

    def __init__(self) -> None:
        self._on = False
        self._key = self._settled = self._deep = time.monotonic()

    def begin(self) -> None:
        """Takes collections over from the interpreter; shortens turns of the GIL."""
        self._on = True
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()

    def key(self) -> None:
        """The operator is at work."""
        self._key = time.monotonic()

    def rest(self) -> None:
        """Collects where it is time to, and nobody is at work."""
        now = time.monotonic()
        if not self._on or now - self._key < REST_SECONDS or now - self._settled < SETTLE_SECONDS:
            return
        self._settled = now
        if now - self._key > DEEP_REST_SECONDS and now - self._deep > DEEP_SECONDS:
            self._deep = now
            gc.unfreeze()
        gc.collect()
        gc.freeze()

    def end(self) -> None:
        """Gives collections back: the process goes on without an interface."""
        if self._on:
            self._on = False
            gc.unfreeze()
            gc.set_threshold(*DEFAULT_THRESHOLDS)
            sys.setswitchinterval(DEFAULT_SWITCH_SECONDS)
