"""Give a DataLoader of torch no workers: run by every Python of a sandbox when it starts.

A worker sends its batches through a socket, which the sandbox refuses, and whoever waits for them
waits for ever. The batches are the same without workers.
"""

import sys
from typing import Any

PLACE = "torch.utils.data.dataloader"


class Finder:
    """Find the module as usual, and change its class once it has run; torch is not imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return the spec of PLACE, with a loader that changes the class; None for others."""
        if name != PLACE:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec: Any = find_spec(name)
        run_module = spec.loader.exec_module

        def run_and_change(module: Any) -> None:
            run_module(module)
            remove_workers(module.DataLoader)

        spec.loader.exec_module = run_and_change
        return spec


def remove_workers(loader: Any) -> None:
    """Let a class of loaders load in its own process, whatever `num_workers` is; says so once."""
    construct = loader.__init__
    warned = list[bool]()

    def construct_without(self: Any, *args: Any, **options: Any) -> None:
        construct(self, *args, **options)
        if self.num_workers and not warned:
            warned.append(True)
            print("DataLoader: num_workers=0, the sandbox has no workers", file=sys.stderr)
        self.num_workers = self.timeout = 0

    loader.__init__ = construct_without


sys.meta_path.insert(0, Finder())
