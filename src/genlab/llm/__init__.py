"""Client for OpenAI-compatible endpoints: chat, images, error kinds, redaction of secrets."""
