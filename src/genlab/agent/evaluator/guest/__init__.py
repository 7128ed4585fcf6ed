"""What runs inside the sandbox, in the process of a generated model. It imports nothing of genlab.

Nothing that it reports is trusted: model code runs beside it and can change it. The judge computes
every metric from logits, codes and decoded parameters, counts parameters in the weights that come
back, and compares the reported count of examples with its own clock.
"""
