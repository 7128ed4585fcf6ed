"""What runs inside the sandbox, in the process of a generated model, without the rest of genlab.

Nothing that it reports is trusted: model code runs beside it and can change it.
"""
