"""The research agent: it plans architectures, writes them, tests them and decides."""
