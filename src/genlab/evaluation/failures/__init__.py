"""The failure gallery: which items fail, and tested hypotheses of why."""
