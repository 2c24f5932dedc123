"""Hypothesis strategies for rounds of signals and updates."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedmerit.validation import MAX_SIZE

seeds = st.integers(0, 2**64 - 1)


_few, _several = st.integers(2, 4), st.integers(1, 6)
_levels = st.integers(2, 5)
_parameters = st.integers(1, 20)


@st.composite
def signal_matrices(draw, *, clients=_few, levels=_levels):
    h = draw(levels)
    shape = (draw(clients), draw(st.integers(2 * h, 40)))
    return draw(hnp.arrays(np.uint8, shape, elements=st.integers(0, h - 1))), h


def floats(width=32):
    """Finite floats with many ties: small whole numbers, zeros of both signs, and anything."""
    bound = 1e30 if width == 32 else MAX_SIZE
    bound = float(np.float32(bound)) if width == 32 else bound
    return st.one_of(
        st.sampled_from([-1.0, -0.0, 0.0, 1.0, 2.0]),
        st.floats(-bound, bound, width=width, allow_subnormal=True),
    )


@st.composite
def float_matrices(draw, *, clients=_several, parameters=_parameters, width=32):
    dtype = np.float32 if width == 32 else np.float64
    return draw(hnp.arrays(dtype, (draw(clients), draw(parameters)), elements=floats(width)))
