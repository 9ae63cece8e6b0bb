"""Reader for triples: one ``subject<TAB>relation<TAB>object`` a line, UTF-8, blank lines and ``#`` comments skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.errors import UserError
from engine.graph.cybergraph import Cybergraph, graph_from_triples

MAX_LABEL_BYTES = 4096


def iterate_triples(path: Path) -> Iterator[tuple[str, str, str]]:
    """The triples of a file in file order. Raises UserError naming file and line for a line that is not a triple."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    with stream:
        number = 0
        try:
            for raw in stream:
                number += 1
                try:
                    line = raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UserError(f"{path}:{number}: not UTF-8 (byte {error.start + 1}); save the file as UTF-8") from error
                if number == 1:
                    line = line.removeprefix("\ufeff")
                if not line.strip() or line.startswith("#"):
                    continue
                fields = line.split("\t")
                if len(fields) != 3:
                    raise UserError(
                        f"{path}:{number}: expected 3 fields separated by tabs (subject, relation, object), found {len(fields)}"
                    )
                fields = [field.strip() for field in fields]
                for name, field in zip(("subject", "relation", "object"), fields, strict=True):
                    if not field:
                        raise UserError(f"{path}:{number}: the {name} is empty")
                    if len(field.encode()) > MAX_LABEL_BYTES:
                        raise UserError(f"{path}:{number}: the {name} is longer than {MAX_LABEL_BYTES} bytes")
                    if "\0" in field:
                        raise UserError(f"{path}:{number}: the {name} holds a NUL character")
                yield fields[0], fields[1], fields[2]
        except OSError as error:
            raise UserError(f"{path}: reading stopped at line {number}: {error.strerror}") from error


def read_triples(path: Path) -> Cybergraph:
    """The graph of a triples file; every relation gets an inverse. Raises UserError for a bad or empty file."""
    graph = graph_from_triples(iterate_triples(path), source_name=path.name)
    if len(graph.links) == 0:
        raise UserError(f"{path}: no triples found")
    return graph
