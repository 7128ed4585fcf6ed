"""What runs inside the sandbox, on our side of the last layer. Standard library alone.

These files are started by path, as the package `guest`, so that nothing else of the project has
to be readable in there; they therefore import each other relatively and nothing of genlab.
"""
