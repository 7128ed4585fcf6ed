"""Trainings in parallel threads, at most as many at a time as the machine has cores."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from genlab.agent.evaluator.results import SeedResult

TrainedSeed = tuple[SeedResult, bytes]
"""What a training returns: its numbers, and the weights as safetensors."""
TrainingKey = tuple[str, int]
"""Digest of the trial, which identifies model and recipe, and the seed."""


class TrainingPool:
    """Trainings of all models of a run; each of them runs in a sandbox, its thread waits for it.

    Threads are enough: none of them computes.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count())
        self._ahead: dict[TrainingKey, Future[TrainedSeed]] = {}

    def start(self, key: TrainingKey, train: Callable[[], TrainedSeed]) -> Future[TrainedSeed]:
        """Start a training, or return the one that was started ahead under the same key."""
        training = self._ahead.pop(key, None)
        return self._threads.submit(train) if training is None else training

    def start_ahead(self, key: TrainingKey, train: Callable[[], TrainedSeed]) -> None:
        """Start a training that will probably be needed, as soon as a core is free."""
        if key not in self._ahead:
            self._ahead[key] = self._threads.submit(train)

    def cancel_ahead(self) -> None:
        """Drop the trainings that were started ahead and still wait for a core."""
        for key, training in list(self._ahead.items()):
            if training.cancel():
                del self._ahead[key]

    def shut_down(self) -> None:
        """Wait for the trainings that run; the others are cancelled."""
        self._threads.shutdown(cancel_futures=True)
