"""Comparison of samples with real images in the features of one classifier."""

from collections.abc import Mapping

from genlab.datasets.images import Images
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.features import Classifier


class FeatureJudge:
    """Compare samples with test images in the features of one classifier.

    splits: images of train, val and test. samples: number of images that each sampler draws.
    features: (n, f) of each split. n: number of images that are compared, fixed because distances
    fall as it grows. reference: distance of n training images to the test images.
    """

    def __init__(self, classifier: Classifier, splits: Mapping[str, Images], samples: int) -> None:
        self.classifier = classifier
        self.features = {name: classifier.features(images) for name, images in splits.items()}
        train = self.features["train"]
        test = self.features["test"]
        self.n = min(samples, len(train), len(test))
        self.reference = frechet.train_reference(train, test, self.n)

    def distance(self, images: Images) -> dict[str, float]:
        """Fréchet distance of samples to test images, absolute and relative to the reference."""
        features = self.classifier.features(images[: self.n])
        distance = frechet.distance(features, self.features["test"])
        relative = distance / self.reference["frechet_distance"]
        return {"frechet_distance": distance, "relative_frechet": relative}

    def validation_frechet(self, images: Images) -> float:
        """Fréchet distance of images to the validation split."""
        return frechet.distance(self.classifier.features(images), self.features["val"])
