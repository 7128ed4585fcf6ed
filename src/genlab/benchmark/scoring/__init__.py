"""The score of a person swap: faces, masks, terms, and the two scores made of them."""

from genlab.benchmark.scoring.scorer import Score, measure, score
from genlab.benchmark.scoring.terms import Term

__all__ = ["Score", "Term", "measure", "score"]
