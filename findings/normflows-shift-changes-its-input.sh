#!/usr/bin/env bash
# Does a normalising flow of normflows return the same likelihood for the same images twice?
#
# normflows 1.7.3, torch 2.14.1, Python 3.11: not with its transform Shift, which its documentation
# offers to move images from [0, 1] to [-0.5, 0.5]. Shift adds in place (z += shift), so that
# log_prob(images) changes the caller's images: after two calls they lie on [-1, 0], and the second
# likelihood is of other numbers than the first. The transform Logit copies. Whoever computes bits
# per dimension of a data set that stays in memory, as benchmarks/baseline_flow.py does, gets wrong
# ones from the second pass on, without a message; images.clone() avoids it.
#
# The script needs an environment with torch (PYTHON, by default .venv/bin/python); normflows goes
# to a temporary folder. It fails where a second call returns the same or the images stay.
set -eu
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip install --quiet --no-deps --target "$folder" normflows==1.7.3 2>"$folder/log"
PYTHONPATH=$folder "$python" - <<'PYTHON'
import normflows as nf
import torch

print("torch", torch.__version__)
torch.manual_seed(0)
images = torch.rand(3, 1, 4, 4)
changed = {}
for transform in (nf.transforms.Logit(), nf.transforms.Shift()):
    base = nf.distributions.GlowBase((4, 2, 2))
    model = nf.MultiscaleFlow([base], [[nf.flows.Squeeze()]], [], transform, class_cond=False)
    name = type(transform).__name__
    x = images.clone()
    with torch.no_grad():
        first = model.log_prob(x, None)
        second = model.log_prob(x, None)
    changed[name] = not torch.equal(x, images)
    print(f"{name}: log p of the first image {first[0]:.3f}, then {second[0]:.3f};", end=" ")
    print(f"the images moved by {(x - images).mean():.2f}")
    assert torch.equal(first, second) != changed[name]
assert changed == {"Logit": False, "Shift": True}, "out of date"
PYTHON
