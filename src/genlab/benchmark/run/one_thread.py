"""Limit numeric libraries to one thread: scorers are processes already.

Imported before any of these libraries, which read the variables when they are loaded.
"""

import os

for name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
):
    os.environ[name] = "1"
