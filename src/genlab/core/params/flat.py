"""The top-level, flat keys of params.yaml, which people sweep."""

from typing import Literal, get_origin

from pydantic import Field, model_validator
from typing_extensions import Self

from genlab.core.params.base import Section, neutral


class FlatParams(Section):
    """The flat keys: seed, datasets, machine, architecture, training, objective, logging."""

    seed: int = Field(ge=0, lt=2**31, description="Seed of all randomness.")
    datasets: list[str] = Field(min_length=1, description="Datasets the pipeline runs over.")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(description="Device of tensors.")
    threads: int = Field(ge=1, le=256, description="Threads of training and of measuring.")
    engine: Literal["local", "ray"] = Field(
        description="What runs parallel work: processes here, or a Ray cluster."
    )
    ray_address: str = Field(description="Address of a Ray cluster; empty = a new local one.")
    workers: int = Field(ge=0, le=4096, description="Parallel processes; 0 = one per core.")

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
    ] = Field(description="Distribution of a cell or a pixel given the latents.")
    likelihood_components: int = Field(ge=1, le=100, description="Logistic components per pixel.")
    causal_channels: int = Field(
        ge=0,
        le=1024,
        description="Channels of the causal head; 0 = none.",
        json_schema_extra=neutral(0),
    )
    latent_context: bool = Field(
        True,  # so that a params.yaml that is older than this key can be read
        description="Whether p(x|z) depends on z; a baseline of the causal head does without.",
        json_schema_extra=neutral(True),
    )

    epochs: int = Field(ge=1, le=100_000, description="Maximum number of epochs.")
    samples_per_epoch: int = Field(ge=1, le=10**9, description="Training items per epoch.")
    batch_size: int = Field(ge=1, description="Items per update.")
    lr: float = Field(gt=0, le=1, description="Peak learning rate.")
    lr_schedule: Literal["constant", "cosine"] = Field(description="Schedule of the learning rate.")
    weight_decay: float = Field(
        ge=0, le=1, description="Decoupled weight decay.", json_schema_extra=neutral(0.0)
    )
    amsgrad: bool = Field(
        description="Whether to use the AMSGrad variant of the optimiser.",
        json_schema_extra=neutral(False),
    )
    grad_clip: float = Field(
        ge=0,
        description="Maximum gradient norm of a parameter group; 0 = off.",
        json_schema_extra=neutral(0.0),
    )
    patience: int = Field(ge=1, description="Epochs without improvement before stopping.")
    ema: float = Field(
        ge=0,
        lt=1,
        description="Decay of the averaged weights; 0 = off.",
        json_schema_extra=neutral(0.0),
    )

    micro_batches: int = Field(
        ge=1,
        le=1024,
        description="Parts of a batch that are processed one after another.",
        json_schema_extra=neutral(1),
    )
    precision: Literal["float32", "bfloat16"] = Field(description="Precision of matrix products.")
    compile: bool = Field(
        description="Whether to compile the training step with torch.compile.",
        json_schema_extra=neutral(False),
    )
    prior_share: float = Field(
        ge=0,
        lt=1,
        description="Fraction of the run in which only the prior is trained.",
        json_schema_extra=neutral(0.0),
    )

    beta_max: float = Field(ge=0, description="Weight of the KL term; 1 = the ELBO.")
    beta_schedule: Literal["constant", "linear", "sigmoid", "cyclical"] = Field(
        description="Schedule of beta."
    )
    beta_delay: float = Field(
        ge=0, lt=1, description="Fraction of the run at beta 0.", json_schema_extra=neutral(0.0)
    )
    beta_warmup: float = Field(
        ge=0,
        le=1,
        description="Fraction of the joint phase (after the delay, before the prior alone)"
        " in which beta rises.",
    )
    free_bits: float = Field(
        ge=0,
        description="Nats per latent that the KL term does not penalise.",
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
        ge=0,
        le=1,
        description="Exponent of class weights; 0 = off.",
        json_schema_extra=neutral(0.0),
    )
    corruption: float = Field(
        ge=0,
        le=1,
        description="Fraction of training grids that are corrupted.",
        json_schema_extra=neutral(0.0),
    )
    symmetries: Literal["none", "flips", "colours", "all"] = Field(
        "none",  # so that a params.yaml that is older than this key can be read
        description="Symmetries that training grids are transformed by at random.",
        json_schema_extra=neutral("none"),
    )

    wandb: bool = Field(description="Whether to mirror logs to Weights & Biases.")
    bootstrap: int = Field(ge=100, le=100_000, description="Bootstrap resamples per interval.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if len(set(self.datasets)) < len(self.datasets):
            raise ValueError(f"datasets must name each dataset once, got {self.datasets}")
        if self.batch_size > self.samples_per_epoch:
            raise ValueError(f"batch_size must be <= samples_per_epoch, got {self.batch_size}")
        if self.prior_heads and self.prior_width % self.prior_heads:
            rule = f"0 or a divisor of prior_width, {self.prior_width}"
            raise ValueError(f"prior_heads must be {rule}, got {self.prior_heads}")
        if not self.latent_context and self.prior != "standard":
            raise ValueError(f"latent_context: false needs prior standard, got {self.prior}")
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
