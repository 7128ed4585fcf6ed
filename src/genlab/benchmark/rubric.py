"""What 1 to 5 stars mean: one text for the page, the command line and the judge."""

from __future__ import annotations

QUESTION = "How well does the result replace the person?"
CRITERIA = (
    "Compare with the template and the avatar: is it the avatar's person, with that person's hair"
    " and head? Are pose, expression and light the template's? Are there seams or blurred areas?"
    " Is the rest of the photograph unchanged?"
)
STARS = {
    1: "failed: somebody else, unchanged, or destroyed",
    2: "poor: hardly the person, or obviously pasted",
    3: "fair: the person, but visibly edited",
    4: "good: the person; edits show only on a close look",
    5: "flawless: as if photographed so",
}


def rubric() -> str:
    """The question, the criteria and the meaning of the stars, one per line."""
    scale = [f"{stars}: {meaning}" for stars, meaning in sorted(STARS.items(), reverse=True)]
    return "\n".join([QUESTION, CRITERIA, *scale])
