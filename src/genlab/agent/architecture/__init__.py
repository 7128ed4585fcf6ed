"""What is tried: a declarative model config, the code of it, and how it is trained."""
