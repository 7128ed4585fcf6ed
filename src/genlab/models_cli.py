"""`genlab sample`, `encode`, `reconstruct`: use a trained model from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

sample_app = typer.Typer()
encode_app = typer.Typer()
reconstruct_app = typer.Typer()

Name = Annotated[str, typer.Argument(help="Dataset whose model is used.")]
Items = Annotated[Path, typer.Argument(help="Pictures in any layout that is read, or grids.")]
Output = Annotated[Path | None, typer.Option(help="Arrays, .npz; the sheet is the .png beside it.")]
Count = Annotated[int, typer.Option(min=1, help="Number of samples.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed.")]
Temperature = Annotated[
    float | None,
    typer.Option(min=0, help="Of the draws of pixels or cells. [default: none; grids: 1]"),
]


@sample_app.command()
def sample(
    name: Name,
    count: Count = 64,
    seed: Seed = 0,
    temperature: Temperature = None,
    output: Output = None,
) -> None:
    """Draw samples of the model of a dataset.

    Writes an array `items` (count, ...) uint8, and a sheet of them.

    Example: genlab sample fashion_mnist --count 64
    """
    from genlab.core.io import write_npz
    from genlab.models import draw_sheet, load_model

    target = output or Path(f"{name}-samples.npz")
    items = load_model(name).sample(count, seed, temperature)
    write_npz(target, {"items": items}, kind="samples")
    draw_sheet(target.with_suffix(".png"), [items])
    typer.echo(f"{target}, {target.with_suffix('.png')}: {count} samples")


@encode_app.command()
def encode(name: Name, path: Items, output: Output = None) -> None:
    """Encode items to the latents of the model of a dataset.

    Writes `mean` and `log_var` of q(z|x), (n, latent_dim), and `names` of the items.

    Example: genlab encode fashion_mnist ~/photos
    """
    import numpy as np

    from genlab.core.io import write_npz
    from genlab.models import draw_sheet, load_model

    target = output or Path(f"{name}-latents.npz")
    model = load_model(name)
    batch = model.read(path)
    mean, log_var = model.encode(batch.items)
    arrays = {"mean": mean, "log_var": log_var, "names": np.array(batch.names)}
    write_npz(target, arrays, kind="latents")
    draw_sheet(target.with_suffix(".png"), [batch.items])
    typer.echo(
        f"{target}, {target.with_suffix('.png')}: {len(mean)} items, {mean.shape[1]} latents"
    )


@reconstruct_app.command()
def reconstruct(name: Name, path: Items, output: Output = None) -> None:
    """Reconstruct items by the model of a dataset.

    Writes `items` and `reconstructions`, uint8, with `names`, and a sheet of both.

    Example: genlab reconstruct fashion_mnist ~/photos
    """
    import numpy as np

    from genlab.core.io import write_npz
    from genlab.models import draw_sheet, load_model

    target = output or Path(f"{name}-reconstructions.npz")
    model = load_model(name)
    batch = model.read(path)
    found = model.reconstruct(batch.items)
    arrays = {"items": batch.items, "reconstructions": found, "names": np.array(batch.names)}
    write_npz(target, arrays, kind="reconstructions")
    draw_sheet(target.with_suffix(".png"), [batch.items, found])
    typer.echo(f"{target}, {target.with_suffix('.png')}: {len(found)} items over reconstructions")
