"""genlab: reproducible experiments with generative models of images."""

import os

__version__ = "0.2.0"

# numpy's BLAS reads this once, when it is loaded. scikit-learn changes its number of threads for a
# while, in the whole process: where two threads measure, the last digits of a sum depend on which
# ends first. torch has threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
