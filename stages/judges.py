"""Stage judges: train the classifiers by whose features images of a dataset are compared.

Writes data/judges/DATASET/judges.safetensors, and their key, digests and accuracies to
results/DATASET/judges.json. The released file in checkpoints/ is copied if its key fits. Grids have
no judges: a marker says so.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import Params
from genlab.core.params.options import DatasetOptions, parse_options


class Options(DatasetOptions):
    """Train the classifiers by whose features images of a dataset are compared.

    Example: python stages/judges.py --dataset fashion_mnist
    """

    data_path: Path = Field(Path("data/DATASET"), description="Folder written by split.")


def train(params: Params, name: str, data: Path, folder: Path) -> dict[str, object]:
    """Train the judges of a dataset of images; return the content of judges.json."""
    from genlab.datasets.images import load_images, load_labels
    from genlab.evaluation.metrics.judges import SEEDS, TrainingSet, make_judges

    training = TrainingSet.of_dataset(name, load_images(data, "train"), load_labels(data, "train"))
    test_images = load_images(data, "test")
    test_labels = load_labels(data, "test")
    examples = params.evaluate.extractor_examples
    processes = len(SEEDS) if params.threads > 1 else 1
    key, judges = make_judges(training, folder, examples=examples, processes=processes)
    return {
        "key": key,
        "task": judges[0].task,
        "examples": examples,
        "judges": {
            str(seed): {
                "digest": judge.digest,
                "accuracy": judge.accuracy(test_images, test_labels),
            }
            for seed, judge in zip(SEEDS, judges, strict=True)
        },
    }


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    folder = options.output_path("data/judges/DATASET")
    results = options.output_path("results/DATASET")
    if options.params.dataset(options.dataset).kind == "grids":
        facts: dict[str, object] = {"judges": {}}
        write_json(folder / "none.json", {"kind": "judges", "dataset": options.dataset})
    else:
        facts = train(options.params, options.dataset, options.data_path, folder)
    write_json(results / "judges.json", facts)
    print(f"{folder}: {len(facts['judges'])} judges")


if __name__ == "__main__":
    run_cli(main)
