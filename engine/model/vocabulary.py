"""Labels and token ids: particles, then semcons, then control tokens. How people's words find particles."""

from __future__ import annotations

import difflib
import hashlib
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from engine.model.context import CONTROL_TOKENS, ControlTokens

CID_PREFIX = bytes((0x01, 0x55, 0x12, 0x20))  # CIDv1, raw codec, sha2-256, 32 bytes
NEAREST_CANDIDATES = 2000
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def display_label(label: str) -> str:
    """The label with control, format and unassigned characters as visible escapes: nothing in it can steer a terminal."""
    if label.isascii() and label.isprintable():
        return label
    return "".join(character if unicodedata.category(character) not in _INVISIBLE else f"\\u{{{ord(character):x}}}" for character in label)


def cid_of_text(text: str) -> bytes:
    """The 36-byte CID (version 1, raw, sha2-256) of a text's UTF-8 bytes."""
    return CID_PREFIX + hashlib.sha256(text.encode("utf-8")).digest()


class Vocabulary:
    """Token ids [0, particles) are particles, then come semcons, then the control tokens of the context layout.

    Labels stay UTF-8 in one buffer and are decoded when asked for; the indexes for searching are built at the first search.
    """

    def __init__(
        self,
        text: bytes,
        offsets: NDArray[np.unsignedinteger],
        particles: int,
        semcons: int,
        inverse: NDArray[np.integer],
        cids: NDArray[np.uint8] | None = None,
    ) -> None:
        self._text = text
        self._offsets: list[int] = offsets.tolist()
        self._cids = cids
        self.particles = particles
        self.semcons = semcons
        self.inverse = np.asarray(inverse, np.int64)
        """(semcons,) index among semcons of each one's inverse; itself where symmetric."""
        self.control = ControlTokens(particles + semcons)
        self.size = len(self._offsets) - 1

    @classmethod
    def from_labels(cls, particles: Sequence[str], semcons: Sequence[str], inverse: NDArray[np.integer]) -> Vocabulary:
        """A vocabulary of these labels followed by the control tokens."""
        text, offsets = encode_labels([*particles, *semcons, *CONTROL_TOKENS])
        return cls(text.tobytes(), offsets, len(particles), len(semcons), inverse)

    def __len__(self) -> int:
        return self.size

    # ---- ids → labels -------------------------------------------------------------------------------------------------

    def raw_label(self, token: int) -> str:
        """The label as stored. Raises IndexError for an id that is not there."""
        if not 0 <= token < self.size:
            raise IndexError(f"token {token} is not one of {self.size}")
        return self._text[self._offsets[token] : self._offsets[token + 1]].decode("utf-8")

    def label(self, token: int) -> str:
        """The label as it may be shown; see ``display_label``."""
        return display_label(self.raw_label(token))

    def kind(self, token: int) -> str:
        """``particle``, ``semcon`` or ``control``."""
        if token < self.particles:
            return "particle"
        return "semcon" if token < self.particles + self.semcons else "control"

    def cid(self, token: int) -> bytes:
        """The 36-byte CID of a particle or semcon: the file's, else that of its label."""
        if self._cids is not None and token < len(self._cids):
            return bytes(self._cids[token])
        return cid_of_text(self.raw_label(token))

    # ---- semcons --------------------------------------------------------------------------------------------------------

    def semcon_token(self, semcon: int) -> int:
        """Token id of semcon number ``semcon``."""
        return self.particles + semcon

    def semcon_index(self, token: int) -> int:
        """Semcon number of a token id; ValueError where it is none."""
        if self.kind(token) != "semcon":
            raise ValueError(f"token {token} is not a semcon")
        return token - self.particles

    def inverse_token(self, token: int) -> int:
        """Token id of the inverse of a semcon's token id."""
        return self.particles + int(self.inverse[self.semcon_index(token)])

    def semcon_labels(self) -> list[str]:
        """Labels of all semcons, for display."""
        return [self.label(self.particles + semcon) for semcon in range(self.semcons)]

    # ---- labels → ids -------------------------------------------------------------------------------------------------

    def _range(self, kind: str) -> range:
        if kind == "semcon":
            return range(self.particles, self.particles + self.semcons)
        return range(self.particles)

    @cached_property
    def _exact(self) -> dict[str, dict[str, int]]:
        return {kind: {self.raw_label(token): token for token in reversed(self._range(kind))} for kind in ("particle", "semcon")}

    @cached_property
    def _folded(self) -> dict[str, list[tuple[str, int]]]:
        return {kind: sorted((self.raw_label(token).casefold(), token) for token in self._range(kind)) for kind in ("particle", "semcon")}

    def find(self, label: str, kind: str = "particle") -> int | None:
        """The token with this label: exactly, else ignoring case and surrounding space; the lowest id of several; or None."""
        exact = self._exact[kind].get(label)
        if exact is not None:
            return exact
        wanted = label.strip().casefold()
        folded = self._folded[kind]
        index = bisect_left(folded, (wanted, -1))
        return folded[index][1] if index < len(folded) and folded[index][0] == wanted else None

    def complete(self, text: str, limit: int = 20, kind: str = "particle") -> list[int]:
        """Tokens whose label starts with ``text``, then those that contain it, ignoring case, in label order."""
        wanted = text.strip().casefold()
        if not wanted or limit < 1:
            return []
        found = list(islice(self._with_prefix(wanted, kind), limit))
        if len(found) < limit:
            inside = (token for folded, token in self._folded[kind] if wanted in folded and not folded.startswith(wanted))
            found += islice(inside, limit - len(found))
        return found

    def _with_prefix(self, wanted: str, kind: str) -> Iterator[int]:
        folded = self._folded[kind]
        index = bisect_left(folded, (wanted, -1))
        while index < len(folded) and folded[index][0].startswith(wanted):
            yield folded[index][1]
            index += 1

    def nearest(self, text: str, limit: int = 5, kind: str = "particle") -> list[int]:
        """Tokens with the labels most like ``text``, best first: completions, then by similarity among a bounded number of
        labels that share a beginning with it."""
        found = self.complete(text, limit, kind)
        wanted = text.strip().casefold()[:100]
        if len(found) >= limit or not wanted:
            return found[:limit]
        candidates: dict[str, int] = {}
        for length in range(min(len(wanted), 6), -1, -1):
            for token in islice(self._with_prefix(wanted[:length], kind), NEAREST_CANDIDATES - len(candidates)):
                candidates.setdefault(self.raw_label(token).casefold(), token)
            if len(candidates) >= NEAREST_CANDIDATES:
                break
        for match in difflib.get_close_matches(wanted, candidates, n=limit, cutoff=0.5):
            if candidates[match] not in found:
                found.append(candidates[match])
        return found[:limit]


def encode_labels(labels: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """``vocabulary.text`` (bytes,) and ``vocabulary.offsets`` (labels+1,) of a ``.cyb`` file."""
    encoded = [label.encode("utf-8") for label in labels]
    offsets = np.zeros(len(encoded) + 1, np.uint32)
    np.cumsum([len(label) for label in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets
