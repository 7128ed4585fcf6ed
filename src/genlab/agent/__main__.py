"""`python -m genlab.agent`: the command line, run_cli while it is still being imported."""

from __future__ import annotations

from genlab.core.errors import run_cli


def main() -> None:
    """Run the command line; torch and others are imported here, where Ctrl-C is one line too."""
    from genlab.agent.cli import app

    app()


if __name__ == "__main__":
    run_cli(main)
