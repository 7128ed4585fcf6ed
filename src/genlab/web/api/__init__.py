"""The API under `/api`, one router per resource. Errors are problem details (RFC 9457)."""
