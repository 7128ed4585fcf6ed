"""What runs inside the sandbox, in the process of a generated model. It imports nothing of genlab
but the likelihoods. Nothing that it reports is trusted: model code runs beside it and can change it.
"""
