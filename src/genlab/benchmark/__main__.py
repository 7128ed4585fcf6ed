"""`python -m genlab.benchmark`."""

from genlab.benchmark.cli import main

if __name__ == "__main__":
    main()
