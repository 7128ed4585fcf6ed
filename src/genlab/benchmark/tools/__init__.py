"""Image tools that come along: a landmark warp, and controls whose rank is known."""
