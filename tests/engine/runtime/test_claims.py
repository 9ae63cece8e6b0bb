"""The queue of claims, against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.claims import Claims
from engine.runtime.proposals import Entry


def claim(promise: float) -> Entry:
    return Entry(-1, 1, 0, 0, 0, 0, 0, 0, 0, 0.5, promise=promise)


@given(st.lists(st.one_of(st.tuples(st.just("add"), st.integers(0, 30), st.integers(0, 4)), st.tuples(st.just("take"), st.integers(0, 3)))))
def test_claims_come_out_by_promise_then_arrival(steps: list[tuple[str, int, int]]) -> None:
    claims, plain, arrival = Claims(), [], 0
    for what, *numbers in steps:
        if what == "add" and numbers[0] not in claims.waiting:
            claims.add(numbers[0], claim(numbers[1]))
            plain.append((-numbers[1], arrival, numbers[0]))
            arrival += 1
        elif what == "take":
            plain.sort()
            taken, plain = plain[: numbers[0]], plain[numbers[0] :]
            assert [key for key, _ in claims.take(numbers[0])] == [key for _, _, key in taken]
    assert [entry.promise for entry in claims] == [-value for value, _, _ in sorted(plain)]
    assert len(claims) == len(plain)


def test_too_many_claims_leave_the_most_promising() -> None:
    claims = Claims()
    bound = claims.capacity
    for number in range(bound + 1):
        claims.add(number, claim(float(number)))
    assert len(claims) == bound // 2
    assert claims.floor == bound - bound // 2
    assert claims.take(1)[0][0] == bound
    claims.forget(bound - 1)
    assert claims.take(1)[0][0] == bound - 2
    claims.take(bound // 3)
    assert claims.floor == 0
