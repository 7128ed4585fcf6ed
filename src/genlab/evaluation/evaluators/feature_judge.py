"""A judge of images: a classifier, its features of real images, and its reference distance."""

from collections.abc import Mapping

from genlab.datasets.images import Images
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.features import Classifier


class FeatureJudge:
    """Compares samples with test images in the features of one classifier.

    splits: train, val and test; features: (n, f) of each. samples: how many images a sampler gives.
    n: how many are compared, since distances fall as their number grows. reference: the distance
    of n training images from the test images.
    """

    def __init__(self, classifier: Classifier, splits: Mapping[str, Images], samples: int) -> None:
        self.classifier = classifier
        self.features = {name: classifier.features(images) for name, images in splits.items()}
        train, test = self.features["train"], self.features["test"]
        self.n = min(samples, len(train), len(test))
        self.reference = frechet.train_reference(train, test, self.n)

    def distance(self, images: Images) -> dict[str, float]:
        """Fréchet distance of samples to the test images, and over that of the reference."""
        features = self.classifier.features(images[: self.n])
        found = frechet.distance(features, self.features["test"])
        relative = found / self.reference["frechet_distance"]
        return {"frechet_distance": found, "relative_frechet": relative}

    def validation_frechet(self, images: Images) -> float:
        """Fréchet distance of images to the validation split."""
        return frechet.distance(self.classifier.features(images), self.features["val"])
