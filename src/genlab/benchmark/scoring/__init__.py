"""The score of a person swap: faces, masks, terms, and the two scores made of them."""

from genlab.benchmark.scoring.overlays import Explanation, explain
from genlab.benchmark.scoring.scorer import Score, score

__all__ = ["Explanation", "Score", "explain", "score"]
