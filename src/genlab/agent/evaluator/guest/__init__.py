"""Code that runs in the sandbox, in the process of a generated model, without the rest of genlab.

Nothing that it reports is trusted: the model's code runs in the same process and can change it.
"""
