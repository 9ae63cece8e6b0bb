"""The ledger: append-only, torn tails, unwritable places."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.runtime.ledger import Ledger, decode, encode, read

EVIDENCE = st.dictionaries(st.text(max_size=8), st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=20), st.floats(-1, 1)), max_size=4)


@given(EVIDENCE)
def test_a_line_survives(evidence: dict[str, Any]) -> None:
    record = {"sequence": 0, "evidence": evidence}
    line = encode(record)
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == record
    assert json.loads(line)["evidence"] == evidence


@settings(max_examples=60, deadline=None)
@given(st.lists(EVIDENCE, min_size=1, max_size=6), st.data())
def test_whatever_is_cut_or_changed_a_whole_prefix_loads_and_appending_goes_on(records: list[dict[str, Any]], data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ledger"
        ledger = Ledger(path)
        for number, evidence in enumerate(records):
            ledger.append("accepted", number, "operator", evidence)
        ledger.close()
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        if data.draw(st.booleans()):
            damaged = whole[:at]
        else:
            damaged = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
        path.write_bytes(damaged)
        intact = whole[:at].count(b"\n")
        found, size = read(path)
        assert len(found) == intact
        assert [record["evidence"] for record in found] == records[:intact]
        assert whole.startswith(damaged[:size])
        again = Ledger(path)
        assert again.count == intact
        again.append("rejected", 9, "operator", {})
        again.close()
        found, size = read(path)
        assert len(found) == intact + 1
        assert size == path.stat().st_size
        torn = path.with_name("a.ledger.torn")
        assert (torn.read_bytes() if torn.exists() else b"") == damaged[len(whole[:at].rpartition(b"\n")[0]) + (intact > 0) :]


def test_an_unwritable_place_is_said_and_decisions_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "file" / "a.ledger")
    assert "cannot be written" in ledger.warning
    ledger.append("accepted", 1, "operator", {"x": 1}, durable=True)
    assert ledger.memory[0]["evidence"] == {"x": 1}
    ledger.close()
    ledger.close()


def test_two_processes_do_not_share_one(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "a.ledger")
    second = Ledger(tmp_path / "a.ledger")
    assert not first.warning
    assert "another cybtui" in second.warning
    first.append("accepted", 0, "operator", {})
    first.close()
    assert Ledger(tmp_path / "a.ledger").count == 1
