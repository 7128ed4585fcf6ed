"""genlab: reproducible experiments with generative models of images."""

__version__ = "0.2.0"
