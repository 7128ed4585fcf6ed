"""`baseline_gpt`: OpenAI's image models, shown the template and the avatars."""

from __future__ import annotations

from typing import ClassVar

from genlab.benchmark.tools.endpoint import EndpointTool, Entry

MODEL = "gpt-image-1.5"
SIZES = ["1024x1024", "1536x1024", "1024x1536"]


class GptImages(EndpointTool):
    """OPENAI_BASE_URL is honoured.

    The estimate is that of a picture of high quality with two photographs beside it; what an image
    took is counted from the tokens that the answer names, at the prices of March 2026.
    """

    prices: ClassVar = {
        "gpt-image-1.5": (5.0, 8.0, 32.0),
        "chatgpt-image-latest": (5.0, 8.0, 32.0),
    }

    def __init__(self) -> None:
        super().__init__(
            Entry(
                id="baseline_gpt",
                title="OpenAI images.edit",
                model=MODEL,
                key_env="OPENAI_API_KEY",
                cost=0.25,
                concurrency=4,
                sizes=SIZES,
            )
        )
