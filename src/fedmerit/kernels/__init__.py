"""Compiled loops on plain arrays: no checks, no draws of their own, no imports from the package.

Each kernel has a slow, obvious twin in ``tests/naive.py``. Counts are integers and float sums have
a fixed order, so the results are the same bits for any number of threads. Randomness comes in as
seeds; `bits` expands a seed into a stream that is the same everywhere.
"""

from fedmerit.kernels.compiling import prepare

prepare()
