import hashlib
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedmerit.errors import LedgerError
from fedmerit.ledger.proof.encoding import encode_each, encode_rows, encode_value, entry_hash

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
ROWS = st.lists(st.lists(VALUES, max_size=3), max_size=3)


def kinds(value: object) -> object:
    """Tell 1 from 1.0 and 0.0 from -0.0, which compare equal."""
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return (type(value).__name__, repr(value))


@given(ROWS, ROWS)
def test_different_rows_have_different_bytes(first: list, second: list) -> None:
    assert (encode_rows(first) == encode_rows(second)) == (kinds(first) == kinds(second))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5), VALUES)
@example([("a", 1), (1, 1), (1.0, 0.0), (None, -0.0)], None)
def test_rows_at_a_time_have_the_bytes_of_single_ones(rows: list, first: object) -> None:
    """Whatever stands in a column: 1 and 1.0 are equal, and not the same."""
    many = rows * 50
    single = [
        b"L" + (3).to_bytes(8, "big") + b"".join(map(encode_value, (first, *row))) for row in many
    ]
    assert encode_each(many, (first,)) == single


def test_bytes_are_those_of_the_description() -> None:
    assert encode_value(None) == b"N"
    assert encode_value(-2) == b"I" + b"\xff" * 7 + b"\xfe"
    assert encode_value(1.5) == b"F" + struct.pack(">d", 1.5)
    assert encode_value("é") == b"T" + bytes(7) + b"\x02\xc3\xa9"
    assert encode_value(b"ab") == b"B" + bytes(7) + b"\x02ab"
    assert encode_rows([[None]]) == b"L" + bytes(7) + b"\x01" + b"L" + bytes(7) + b"\x01N"


def test_an_entry_is_one_list_of_fields_and_tables() -> None:
    expected = b"L" + bytes(7) + b"\x02" + encode_value("run") + encode_rows([[1, 2.0]])
    assert entry_hash(["run"], [[[1, 2.0]]]) == hashlib.sha256(expected).digest()


def test_other_values_are_refused() -> None:
    with pytest.raises(LedgerError, match="numbers, text and bytes, got \\[1\\]"):
        encode_value([1])
    with pytest.raises(LedgerError, match="numbers, text and bytes, got True"):
        encode_rows([[True]])
