"""Who proposes the next attempt: a language model or random search, and its prompts."""
