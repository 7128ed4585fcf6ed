"""The scalars of metrics/<dataset>.json: what a reviewer reads in `dvc metrics diff`.

Intervals and everything else are in results/<dataset>/.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Summary(BaseModel):
    """What both kinds of data have; written as JSON."""

    model_config = ConfigDict(frozen=True)

    passed: bool = Field(description="Whether every acceptance criterion is met.")
    active_units: Count = Field(
        description="Latents whose posterior mean varies over the test split by more than 0.01 in"
        " variance (Burda et al., 2016)."
    )


class GridSummary(Summary):
    """Test split of the grids."""

    pixel_accuracy: Rate = Field(description="Fraction of cells reconstructed with their colour.")
    nonblack_accuracy: Rate = Field(description="The same over cells that are not black.")
    exact_match: Rate = Field(description="Fraction of grids reconstructed without a wrong cell.")
    neg_elbo_over_entropy_bound: float = Field(
        description="−ELBO over the bound on the data's entropy; near 1 is near the optimum."
    )
    valid_rate: Rate = Field(
        description="Fraction of samples that parse completely, with an allowed number of objects."
    )
    arc_exact_match: Rate = Field(
        description="Fraction of the grids of ARC-AGI evaluation tasks reconstructed without a"
        " wrong cell."
    )


class OwnGridSummary(Summary):
    """Test split of grids of one's own; samples are those of the sampler selected on validation."""

    pixel_accuracy: Rate = Field(description="Fraction of cells reconstructed with their colour.")
    nonblack_accuracy: Rate = Field(description="The same over cells that are not black.")
    exact_match: Rate = Field(description="Fraction of grids reconstructed without a wrong cell.")
    neg_elbo_per_cell: float = Field(description="−ELBO in nats per cell.")
    context_nats_per_cell: float = Field(
        description="Nats per cell under a table of counts given the cells to the left and above."
    )
    component_distance: Rate = Field(
        description="Mean total variation of samples and test grids in number, size and colour of"
        " components."
    )
    novelty: Rate = Field(description="Fraction of samples that are no training grid.")


class ImageSummary(Summary):
    """Test split of the images; samples are those of the sampler selected on validation."""

    bits_per_dim: float = Field(description="−ELBO per pixel and channel, in bits.")
    ssim: float = Field(
        le=1,
        description="Structural similarity of reconstructions, mean, by scikit-image, over the"
        " positions of the window inside the image.",
    )
    psnr: float = Field(description="Peak signal-to-noise ratio of reconstructions, mean, in dB.")
    kl_nats: float = Field(description="KL divergence of posterior and prior, nats per image.")
    relative_frechet: float = Field(
        ge=0,
        description="Fréchet distance of samples to test images, over that of training images.",
    )
    precision: Rate = Field(
        description="Fraction of samples within the manifold of test images"
        " (Kynkäänniemi et al., 2019)."
    )
    recall: Rate = Field(description="Fraction of test images within the manifold of samples.")
    near_duplicate_rate: Rate = Field(
        description="Fraction of samples closer to a training image than test images are."
    )
