"""Reader for the WordNet 3.0 database files (``data.*`` and ``index.*``): synsets and their typed relations, no glosses.

Format: wndb(5WN). A synset is named like ``dog.n.01``: its first word, part of speech, and the sense number of that word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine.errors import UserError
from engine.graph.cybergraph import Cybergraph, canonical_links

PARTS = (("noun", "n"), ("verb", "v"), ("adj", "a"), ("adv", "r"))

# (pointer symbol, its inverse symbol, how people read it, how people read the inverse); equal symbols: symmetric.
RELATIONS = (
    ("@", "~", "is a kind of", "has kind"),
    ("@i", "~i", "is an instance of", "has instance"),
    ("%p", "#p", "has part", "is part of"),
    ("%m", "#m", "has member", "is member of"),
    ("%s", "#s", "has substance", "is substance of"),
    ("*", "", "entails", "is entailed by"),
    (">", "", "causes", "is caused by"),
    (";c", "-c", "is in the topic of", "is the topic of"),
    (";r", "-r", "is used in the region of", "is the region of"),
    (";u", "-u", "is an example of the usage", "has usage example"),
    ("\\", "", "pertains to", "has pertaining word"),
    ("<", "", "is the participle of", "has participle"),
    ("=", "=", "has the same attribute as", ""),
    ("+", "+", "is a related form of", ""),
    ("!", "!", "is the opposite of", ""),
    ("&", "&", "is similar to", ""),
    ("^", "^", "see also", ""),
    ("$", "$", "is in the verb group of", ""),
)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="latin-1") as stream:
            for number, line in enumerate(stream, 1):
                if line[:1] != " ":  # the licence lines start with spaces
                    yield number, line
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def _sense_numbers(folder: Path) -> dict[tuple[str, str, int], int]:
    """(word, part of speech, synset offset) → sense number, from the index files."""
    senses: dict[tuple[str, str, int], int] = {}
    for part, letter in PARTS:
        path = folder / f"index.{part}"
        for number, line in _lines(path):
            try:
                fields = line.split()
                count = int(fields[2])
                for sense, offset in enumerate(fields[-count:], 1):
                    senses[fields[0], letter, int(offset)] = sense
            except (IndexError, ValueError) as error:
                raise UserError(f"{path}:{number}: not a line of a WordNet index file") from error
    return senses


def read_wordnet(folder: Path) -> Cybergraph:
    """All synsets and their relations, each link once. Raises UserError for a folder that is not a WordNet database."""
    missing = [name for part, _ in PARTS for name in (f"data.{part}", f"index.{part}") if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder}: not a WordNet database, {', '.join(missing)} missing")
    senses = _sense_numbers(folder)
    semcon_of: dict[str, int] = {}
    semcons: list[str] = []
    inverse: list[int] = []
    for symbol, back, label, back_label in RELATIONS:
        semcon_of[symbol] = len(semcons)
        semcons.append(label)
        if symbol == back:
            inverse.append(len(semcons) - 1)
            continue
        inverse += [len(semcons), len(semcons) - 1]
        if back:
            semcon_of[back] = len(semcons)
        semcons.append(back_label)
    number_of: dict[tuple[str, int], int] = {}
    labels: list[str] = []
    names: list[tuple[str, ...]] = []
    pointers: list[tuple[str, int, str, str, int]] = []
    for part, letter in PARTS:
        path = folder / f"data.{part}"
        for number, line in _lines(path):
            try:
                fields = line.split("|", 1)[0].split()
                offset, kind, words = int(fields[0]), fields[2], int(fields[3], 16)
                word = fields[4].split("(")[0].lower()
                labels.append(f"{word}.{kind}.{senses.get((word, letter, offset), 1):02d}")
                number_of[letter, offset] = len(labels) - 1
                at = 4 + 2 * words
                names.append(tuple(name.split("(")[0] for name in fields[4:at:2]))
                for pointer in range(int(fields[at])):
                    symbol, target, target_part = fields[at + 1 + 4 * pointer : at + 4 + 4 * pointer]
                    pointers.append((letter, offset, symbol, "a" if target_part == "s" else target_part, int(target)))
            except (IndexError, ValueError) as error:
                raise UserError(f"{path}:{number}: not a line of a WordNet data file") from error
    links, unknown = [], 0
    for letter, offset, pointer_symbol, target_part, target_offset in pointers:
        # an adverb's "derived from adjective" is a related form
        symbol = "+" if letter == "r" and pointer_symbol == "\\" else pointer_symbol
        semcon, end = semcon_of.get(symbol), number_of.get((target_part, target_offset))
        if semcon is None or end is None:
            unknown += 1
            continue
        links.append((number_of[letter, offset], semcon, end))
    table = np.array(inverse, np.int64)
    stored = canonical_links(np.array(links, np.int64).reshape(-1, 3), table)
    stored = stored[stored[:, 0] != stored[:, 2]]
    notices = (f"{unknown} pointers name a relation or synset that is not there",) if unknown else ()
    return Cybergraph(
        tuple(_unique(labels)),
        tuple(semcons),
        table,
        stored,
        np.ones(len(stored), np.float32),
        source_name="WordNet 3.0",
        notices=notices,
        names=tuple(names),
    )


def _unique(labels: list[str]) -> list[str]:
    """Labels with `` (2)``, `` (3)`` … behind repeated ones, so that each names one particle."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result
