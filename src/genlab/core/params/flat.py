"""The top-level, flat keys of params.yaml, which people sweep."""

from typing import Literal, get_origin

from pydantic import Field, model_validator
from typing_extensions import Self

from genlab.core.params.sections import Section, neutral


class FlatParams(Section):
    """The flat keys: seed, datasets, machine, architecture, training, objective, logging."""

    seed: int = Field(ge=0, lt=2**31, description="Seed of all randomness.")
    datasets: list[str] = Field(min_length=1, description="Datasets the pipeline runs over.")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(description="Where tensors live.")
    threads: int = Field(ge=1, le=256, description="Threads of training and of measuring.")
    engine: Literal["local", "ray"] = Field(description="Where work is spread to.")
    ray_address: str = Field(description="Address of a Ray cluster; empty = a new local one.")
    workers: int = Field(ge=0, le=4096, description="Processes that share work; 0 = one per core.")

    patch: int = Field(ge=1, le=16, description="Side of a patch in cells or pixels.")
    width: int = Field(ge=4, le=4096, description="Channels of encoder and decoder.")
    depth: int = Field(ge=1, le=64, description="Blocks of encoder and of decoder.")
    latent_dim: int = Field(ge=2, le=8192, description="Latents per item.")
    prior: Literal["standard", "autoregressive", "autoregressive_mixture"] = Field(
        description="Prior over the latents."
    )
    prior_width: int = Field(ge=4, le=4096, description="Channels of the learned prior.")
    prior_depth: int = Field(ge=1, le=64, description="Blocks of the learned prior.")
    prior_components: int = Field(ge=1, le=65536, description="Components of the learned prior.")
    prior_heads: int = Field(
        ge=0,
        description="Attention heads of the learned prior; 0 = none.",
        json_schema_extra=neutral(0),
    )
    likelihood: Literal[
        "categorical",
        "bernoulli",
        "continuous_bernoulli",
        "gaussian",
        "gaussian_analytic",
        "discretized_logistic_mixture",
    ] = Field(description="What the decoder says of a cell or a pixel.")
    likelihood_components: int = Field(ge=1, le=100, description="Logistics per pixel.")
    causal_channels: int = Field(
        ge=0, le=1024, description="Channels of the causal head.", json_schema_extra=neutral(0)
    )

    epochs: int = Field(ge=1, le=100_000, description="Most epochs.")
    samples_per_epoch: int = Field(ge=1, le=10**9, description="Training items per epoch.")
    batch_size: int = Field(ge=1, description="Items per update.")
    lr: float = Field(gt=0, le=1, description="Peak learning rate.")
    lr_schedule: Literal["constant", "cosine"] = Field(description="Learning rate over the run.")
    weight_decay: float = Field(
        ge=0, le=1, description="Decoupled weight decay.", json_schema_extra=neutral(0.0)
    )
    amsgrad: bool = Field(
        description="Whether steps follow the largest second moment so far.",
        json_schema_extra=neutral(False),
    )
    grad_clip: float = Field(
        ge=0,
        description="Greatest gradient norm of a group; 0 = off.",
        json_schema_extra=neutral(0.0),
    )
    patience: int = Field(ge=1, description="Epochs without a gain before stopping.")
    ema: float = Field(
        ge=0,
        lt=1,
        description="Memory of the averaged weights; 0 = off.",
        json_schema_extra=neutral(0.0),
    )

    micro_batches: int = Field(
        ge=1,
        le=1024,
        description="Parts of a batch, one after another.",
        json_schema_extra=neutral(1),
    )
    precision: Literal["float32", "bfloat16"] = Field(description="Of matrix products.")
    compile: bool = Field(
        description="Whether torch.compile prepares the training step.",
        json_schema_extra=neutral(False),
    )
    prior_share: float = Field(
        ge=0,
        lt=1,
        description="Share of the run for the prior alone.",
        json_schema_extra=neutral(0.0),
    )

    beta_max: float = Field(ge=0, description="Weight of the KL term; 1 = the ELBO.")
    beta_schedule: Literal["constant", "linear", "sigmoid", "cyclical"] = Field(
        description="Rise of beta."
    )
    beta_delay: float = Field(
        ge=0, lt=1, description="Share of the run at beta 0.", json_schema_extra=neutral(0.0)
    )
    beta_warmup: float = Field(
        ge=0,
        le=1,
        description="Share of the joint phase (after the delay, before the prior alone)"
        " in which beta rises.",
    )
    free_bits: float = Field(
        ge=0,
        description="Nats per latent that are free of the KL term.",
        json_schema_extra=neutral(0.0),
    )
    auxiliary: float = Field(
        ge=0,
        description="Weight of the likelihood without causal head.",
        json_schema_extra=neutral(0.0),
    )
    focal_gamma: float = Field(
        ge=0, description="Focal exponent at beta 0; 0 = off.", json_schema_extra=neutral(0.0)
    )
    class_balance_exponent: float = Field(
        ge=0, le=1, description="Class weights; 0 = off.", json_schema_extra=neutral(0.0)
    )
    corruption: float = Field(
        ge=0,
        le=1,
        description="Share of training grids that are corrupted.",
        json_schema_extra=neutral(0.0),
    )

    wandb: bool = Field(description="Mirror the logs to Weights & Biases.")
    bootstrap: int = Field(ge=100, le=100_000, description="Resamples per interval.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(set(self.datasets)) < len(self.datasets):
            raise ValueError(f"datasets must name each dataset once, got {self.datasets}")
        if self.batch_size > self.samples_per_epoch:
            raise ValueError(f"batch_size must be <= samples_per_epoch, got {self.batch_size}")
        if self.prior_heads and self.prior_width % self.prior_heads:
            rule = f"0 or a divisor of prior_width, {self.prior_width}"
            raise ValueError(f"prior_heads must be {rule}, got {self.prior_heads}")
        return self


FLAT_KEYS = tuple(
    name
    for name, field in FlatParams.model_fields.items()
    if field.annotation in (int, float, bool, str) or get_origin(field.annotation) is Literal
)
"""Keys whose value is a scalar; a stage may have an option for each."""
UNTRAINED_KEYS = ("engine", "ray_address", "workers", "wandb", "bootstrap")
"""Keys that change no weight of a trained model."""
TRAINING_KEYS = tuple(name for name in FLAT_KEYS if name not in UNTRAINED_KEYS)
SECTION_KEYS = frozenset(TRAINING_KEYS) - {"seed", "beta_max", "beta_schedule"}
"""Keys that the section of a dataset may set."""
