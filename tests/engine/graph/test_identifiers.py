from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.graph.identifiers import CID_BYTES, cid_of, cid_text, label_cid, parse_cid

GOLDEN = {
    "": "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
    "hello world": "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
}


@pytest.mark.parametrize(("label", "text"), GOLDEN.items())
def test_ids_are_those_of_ipfs(label: str, text: str) -> None:
    assert cid_text(label_cid(label)) == text
    assert parse_cid(text) == label_cid(label)


@given(st.binary(max_size=200))
def test_text_gives_the_bytes_back(content: bytes) -> None:
    cid = cid_of(content)
    assert len(cid) == CID_BYTES
    assert parse_cid(cid_text(cid)) == cid


@pytest.mark.parametrize(
    "text",
    ["", "b", "hello", GOLDEN[""][:-1], GOLDEN[""].upper(), "z" + GOLDEN[""][1:], GOLDEN[""][:-1] + "v", "bé" * 29, "b" + "a" * 58],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="CID"):
        parse_cid(text)
