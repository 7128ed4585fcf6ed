import pytest
import tiny
from refusals import refused
from torchvision import datasets

from genlab.datasets.registry import DATASETS, find_dataset


def test_an_unknown_dataset_is_an_error_that_lists_the_known():
    with refused(*DATASETS, key="--dataset"):
        find_dataset("svhn")


@pytest.mark.parametrize("name", [name for name, each in DATASETS.items() if each.open])
def test_every_image_dataset_has_params_and_labels(name):
    dataset = find_dataset(name)
    assert tiny.params().for_dataset(name)
    assert len(set(dataset.labels)) == len(dataset.labels) >= 2


def test_the_names_of_classes_are_torchvisions():
    assert DATASETS["fashion_mnist"].labels == tuple(datasets.FashionMNIST.classes)
