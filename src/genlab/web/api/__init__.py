"""The API under `/api`: one router per resource. Every fault is a problem (RFC 9457)."""
