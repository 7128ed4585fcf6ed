"""The part of the sandbox that runs inside it: it imports the standard library alone.

These files are started by path, as the package `guest`, so that nothing else of the project has
to be readable in there; they therefore import each other relatively and nothing of genlab.
"""
