"""genlab: reproducible experiments with generative models of images."""

import os

__version__ = "0.2.0"

# One thread for numpy's BLAS; torch has its own threads. scikit-learn changes BLAS's number of
# threads for a while, in the whole process: where two threads measure, the last digits of a sum
# would depend on which ends first. It is set here, and not in the commands and stages, because BLAS
# reads it once, when numpy is loaded: a notebook or a worker process that imports genlab first gets
# the same sums.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
