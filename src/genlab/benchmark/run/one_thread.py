"""Imported before anything that computes: one thread each, since the scorers are processes.

Libraries read these once, when they are loaded, so that a function would come too late.
"""

import os

for name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
):
    os.environ[name] = "1"
