"""Load the evaluated model, in the evaluation and in its worker processes.

Workers import only this module of the evaluation, and so neither figures nor metrics.
"""

from pathlib import Path
from typing import Any

from genlab.core import engine
from genlab.core.params import Params
from genlab.vae.models.vae import VAE
from genlab.vae.training.checkpoint import load_checkpoint

TRAIN = "dvc repro train"


def load_model(checkpoint: Path, params: Params) -> tuple[VAE, dict[str, Any]]:
    """Load a checkpoint; return the model, on the device that params name, and its facts.

    Raises GenlabError where it is missing, truncated or foreign.
    """
    model, facts = load_checkpoint(checkpoint, producer_command=TRAIN)
    return model.to(engine.select_device(params.device)), facts
