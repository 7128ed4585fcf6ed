"""`baseline_dalle3`: an id that is kept for comparisons; the model itself is gone."""

from __future__ import annotations

from genlab.benchmark.plugins import Kind
from genlab.benchmark.tools.endpoint import EndpointTool, Entry


class Dalle3(EndpointTool):
    """DALL·E 3 took words alone, so that it shows what a tool without the pixels can do.

    Where an endpoint still serves it, an entry `baseline_dalle3` of runs/tools.yaml with its
    `base_url` and `method: generate` takes this one's place.
    """

    absence: Kind = "retired"

    def __init__(self) -> None:
        super().__init__(
            Entry(
                id="baseline_dalle3",
                title="DALL·E 3, words alone",
                model="dall-e-3",
                cost=0.08,
                concurrency=2,
                method="generate",
                sizes=["1024x1024", "1792x1024", "1024x1792"],
            )
        )

    def unavailable(self) -> str:
        """Why it can't be used: OpenAI retired it."""
        return (
            "DALL·E 3 was retired in May 2026; where an endpoint still serves it, name it in"
            " runs/tools.yaml (id: baseline_dalle3, base_url: ..., method: generate)"
        )
