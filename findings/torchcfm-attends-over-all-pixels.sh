#!/usr/bin/env bash
# Where does the U-Net of torchcfm attend, on images of 28 x 28 pixels?
#
# torchcfm 1.0.7, torch 2.14.1, Python 3.11: over all 784 of them. UNetModelWrapper takes
# attention_resolutions="16" by default, the side of the feature maps that attend, and divides the
# image's side by it. 28 // 16 is 1, which the network reads as the full resolution: at 32 pixels the
# maps of 16 x 16 attend, as the name says, at 28 pixels those of 28 x 28, three times per pass. This
# is the default of the one size besides powers of two that the class has a table entry for. On a
# CPU it takes more than half of the pass; attention_resolutions="14" gives what was meant.
#
# The script needs an environment with torch (PYTHON, by default .venv/bin/python); torchcfm goes to
# a temporary folder. It fails where the maps that attend are others, or cost nothing.
set -eu
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip install --quiet --no-deps --target "$folder" torchcfm==1.0.7 POT==0.9.6.post1 2>"$folder/log"
PYTHONPATH=$folder "$python" -W ignore - <<'PYTHON'
import time

import torch
from torchcfm.models.unet.unet import AttentionBlock, UNetModelWrapper

print("torch", torch.__version__)
torch.set_num_threads(1)


@torch.no_grad()
def measure(side, **options):
    """Sides of the maps that attend beside the middle's, and CPU seconds of a pass."""
    net = UNetModelWrapper((1, side, side), num_channels=32, num_res_blocks=1, **options)
    sides = []
    for name, module in net.named_modules():
        if isinstance(module, AttentionBlock) and not name.startswith("middle"):
            module.register_forward_hook(lambda _, inputs, __: sides.append(inputs[0].shape[-1]))
    net(torch.zeros(1), torch.zeros(1, 1, side, side))
    attending = list(sides)
    images = torch.zeros(16, 1, side, side)
    seconds = []
    for _ in range(5):
        began = time.process_time()
        net(torch.zeros(16), images)
        seconds.append(time.process_time() - began)
    print(f"{side} pixels, {options or 'default'}: maps of side {attending} attend,", end=" ")
    print(f"{1000 * min(seconds) / 16:.1f} ms per image")
    return attending, min(seconds)


at_32, _ = measure(32)
at_28, default = measure(28)
meant, halved = measure(28, attention_resolutions="14")
assert set(at_32) == {16}, "out of date"
assert set(at_28) == {28}, "out of date"
assert set(meant) == {14}, "out of date"
assert default > 1.5 * halved, "attention over all pixels costs little: out of date"
PYTHON
