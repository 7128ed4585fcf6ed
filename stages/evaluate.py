"""Stage evaluate: measure the model on the test split, diagnose it, and pass a verdict.

Writes metrics/DATASET/{metrics,verdict,diagnosis}.json, plots/DATASET/evaluation/*.png and
data/evaluated/DATASET/evidence.npz (reconstructions, nats and samples, for failure_gallery).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.core import engine
from genlab.core.artifacts import read_json, write_json, write_npz
from genlab.core.console import guarded
from genlab.core.params import load_params, overrides
from genlab.datasets.arc_grids import arc_agi_grids, load_objects, load_split
from genlab.measure import evaluation
from genlab.vae import inference, samplers
from genlab.vae.model import load_checkpoint
from genlab.vae.run import CHECKPOINT, read_history, require_shape

TRAIN = "dvc repro train"
SPLIT = "dvc repro split"


@overrides("seed", "device")
def evaluate(
    dataset: Annotated[str, typer.Option(help="Dataset to measure on.")] = "arc_grids",
    data_path: Annotated[
        Path | None, typer.Option(help="Split file or its folder. (default: data/DATASET)")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of train. (default: data/checkpoints/DATASET)")
    ] = None,
    metrics_path: Annotated[
        Path | None, typer.Option(help="Folder for JSON. (default: metrics/DATASET)")
    ] = None,
    plots_path: Annotated[
        Path | None, typer.Option(help="Folder for PNG. (default: plots/DATASET/evaluation)")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for arrays. (default: data/evaluated/DATASET)")
    ] = None,
    *,
    overrides: dict[str, Any],
) -> None:
    """Measure a trained model; what isn't given here comes from params.yaml.

    Example: python stages/evaluate.py --dataset arc_grids
    """
    params = load_params().with_overrides(**overrides).for_dataset(dataset)
    engine.deterministic(params.seed)
    data, trained = (
        data_path or Path("data") / dataset,
        checkpoint or Path("data/checkpoints") / dataset,
    )
    results = metrics_path or Path("metrics") / dataset
    model, facts = load_checkpoint(trained / CHECKPOINT, made_by=TRAIN)
    model = model.to(engine.device(params.device))
    history = read_history(trained, made_by=TRAIN)
    described = read_json(Path("metrics") / dataset / "data.json", made_by=SPLIT)
    train, test = load_split(data, "train"), load_split(data, "test")
    require_shape(model, test, data)
    arc = arc_agi_grids(params.grids.size)
    settings, seed = params.evaluate, params.seed
    reconstruction, kl = inference.bounds(model, test, seed)
    chosen = test[: settings.importance_grids]
    evidence = evaluation.GridEvidence(
        truth=test,
        predicted=inference.reconstruct(model, test),
        reconstruction=reconstruction,
        kl=kl,
        log_weights=inference.log_weights(model, chosen, settings.importance_samples, seed),
        means=inference.posterior_means(model, test),
        objects=load_objects(data, "test"),
        train=train,
        samples={
            name: samplers.sample(model, name, settings.samples, train, seed)
            for name in samplers.NAMES
        },
        arc_truth=arc,
        arc_predicted=inference.reconstruct(model, arc),
    )
    objects = (params.grids.min_objects, params.grids.max_objects)
    metrics = evaluation.measure(
        evidence,
        beta_max=facts["training"]["beta_max"],
        entropy_nats=described["program_entropy_nats"],
        object_range=objects,
        bootstrap=settings.bootstrap,
        seed=seed,
    )
    updates = facts["training"]["epoch_size"] // facts["training"]["batch_size"]
    files = [str(results / "metrics.json"), f"plots/{dataset}/evaluation/training_curves.png"]
    verdict, diagnosis = evaluation.judge(metrics, history, updates, files)
    write_json(results / "metrics.json", metrics)
    write_json(results / "verdict.json", verdict)
    write_json(results / "diagnosis.json", diagnosis)
    plots = plots_path or Path("plots") / dataset / "evaluation"
    evaluation.draw(plots, evidence, metrics, history, objects)
    best = evaluation.best_sampler(metrics)
    arrays = {
        "predicted": evidence.predicted,
        "nats": reconstruction,
        "samples": evidence.samples[best],
    }
    folder = output or Path("data/evaluated") / dataset
    write_npz(folder / "evidence.npz", arrays, kind="evaluation")
    found = [d["name"] for d in diagnosis["diagnoses"] if d["found"]]
    print(
        f"{results}/metrics.json: exact grids {metrics['exact_grid_accuracy']:.4f},"
        f" -ELBO {metrics['neg_elbo_nats']:.2f} nats"
        f" ({metrics['elbo_over_entropy']:.3f} of the program's entropy),"
        f" legal samples {metrics['samplers'][best]['legal_grids']:.3f} ({best}),"
        f" verdict {'passed' if verdict['passed'] else 'not passed'},"
        f" found {', '.join(found) or 'no collapse'}"
    )


if __name__ == "__main__":
    guarded(lambda: typer.run(evaluate))
