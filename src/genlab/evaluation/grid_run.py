"""Measuring a model of grids: data and checkpoint in, evidence, metrics and pictures out."""

from __future__ import annotations

from pathlib import Path

from genlab.core.io import read_json
from genlab.core.params import Params
from genlab.datasets.arc_grids import arc_agi_grids, load_objects, load_split
from genlab.datasets.registry import Dataset
from genlab.evaluation import grid_evaluation as evaluation
from genlab.evaluation.run import EvaluationPaths, EvaluationResult, read_trained
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import samplers

SPLIT = "dvc repro split"


def evaluate_grids(params: Params, dataset: Dataset, folders: EvaluationPaths) -> str:
    """Measure the model of a grid dataset; writes what `EvaluationResult` holds and returns a line."""
    trained = read_trained(folders, params)
    model = trained.model
    described = read_json(Path("results") / dataset.name / "data.json", producer_command=SPLIT)
    train, test = load_split(folders.data, "train"), load_split(folders.data, "test")
    trained.require_shape(test)
    arc = arc_agi_grids(params.grids.size)
    settings, seed = params.evaluate, params.seed
    reconstruction, kl = inference.elbo_terms(model, test, seed)
    trained.require_finite(reconstruction + kl)
    chosen = test[: settings.iwae_items]
    drawn = {
        name: samplers.sample(model, samplers.fit(model, name, train, seed), settings.samples, seed)
        for name in samplers.names(model)
    }
    evidence = evaluation.GridEvidence(
        truth=test,
        predicted=inference.reconstruct(model, test),
        reconstruction=reconstruction,
        kl=kl,
        log_weights=inference.log_importance_weights(model, chosen, settings.iwae_samples, seed),
        means=inference.encode(model, test)[0],
        objects=load_objects(folders.data, "test"),
        train=train,
        samples=drawn,
        arc_truth=arc,
        arc_predicted=inference.reconstruct(model, arc),
    )
    objects = (params.grids.min_objects, params.grids.max_objects)
    metrics = evaluation.measure(
        evidence,
        beta_max=trained.facts["training"]["beta_max"],
        entropy_nats=described["data_entropy_bound_nats"],
        object_range=objects,
        bootstrap=settings.bootstrap,
        seed=seed,
    )
    verdict, diagnosis = evaluation.judge(
        metrics, trained.history, trained.updates_an_epoch, folders.evidence_files()
    )
    judged = EvaluationResult(metrics, verdict, diagnosis)
    judged.write(folders.metrics)
    evaluation.draw(folders.plots, evidence, metrics, trained.history, objects)
    best = evaluation.best_sampler(metrics)
    folders.keep(
        {
            "predicted": evidence.predicted,
            "nats": reconstruction,
            "samples": evidence.samples[best],
        }
    )
    return (
        f"exact grids {metrics['exact_grid_accuracy']:.4f},"
        f" -ELBO {metrics['neg_elbo_nats']:.2f} nats"
        f" ({metrics['neg_elbo_over_entropy_bound']:.3f} of the program's entropy),"
        f" legal samples {metrics['samplers'][best]['valid_rate']:.3f} ({best}),"
        f" {judged.words()}"
    )
