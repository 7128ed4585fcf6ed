import pytest
import tiny
from torchvision import datasets

from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.datasets.grid_stages import read_generated
from genlab.datasets.image_stages import SOURCES
from genlab.datasets.registry import DATASETS, find_dataset


def test_an_unknown_dataset_is_an_error_that_lists_the_known():
    with pytest.raises(GenlabError, match=r"'svhn'; known: .*arc_grids") as error:
        find_dataset("svhn")
    assert error.value.key == "--dataset"


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=list(DATASETS))
def test_every_dataset_has_params_and_a_way_to_generate_it(dataset, root, tmp_path):
    params = load_params(root / "params.yaml")
    assert tiny.params().for_dataset(dataset.name)
    if dataset.kind == "grids":
        dataset.generate(params, tmp_path, count=5)
        grids = read_generated(tmp_path)[0]
        assert grids.shape == (5, *dataset.shape)
        assert grids.max() < dataset.classes
    else:
        assert dataset.name in SOURCES
        assert dataset.classes == 256
        assert len(set(dataset.labels)) == len(dataset.labels) >= 2
        with pytest.raises(GenlabError) as error:
            dataset.generate(params, tmp_path, count=5)
        assert error.value.key == "--count"


def test_the_names_of_classes_are_torchvisions():
    assert DATASETS["fashion_mnist"].labels == tuple(datasets.FashionMNIST.classes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"emoji_size": 8}, "images.emoji_size"),
        ({"val_share": 0.6, "test_share": 0.5}, "images"),
        ({"download": "yes"}, "images.download"),
        ({"raw": ""}, "images.raw"),
    ],
)
def test_params_of_images_are_checked(changes, says):
    content = tiny.values()
    with pytest.raises(GenlabError, match=says):
        tiny.parse_params({**content, "images": {**content["images"], **changes}}, "x")
