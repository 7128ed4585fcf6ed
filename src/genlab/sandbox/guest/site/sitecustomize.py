"""Start torch's DataLoader without workers; every Python in a sandbox runs this when it starts.

A worker sends its batches through a socket, which the sandbox refuses, so that a script would wait
for them for ever. The batches are the same without workers.
"""

import sys
from typing import Any

MODULE = "torch.utils.data.dataloader"


class Finder:
    """Find the module of DataLoader, and change that class once it has run.

    torch itself is not imported for it.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return the spec of MODULE, with a loader that changes the class; None for others."""
        if name != MODULE:
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
    """Make a class of loaders ignore `num_workers`; a message says so once."""
    construct = loader.__init__
    warned = list[bool]()

    def construct_without_workers(self: Any, *args: Any, **options: Any) -> None:
        construct(self, *args, **options)
        if self.num_workers and not warned:
            warned.append(True)
            print("DataLoader: num_workers=0, the sandbox has no workers", file=sys.stderr)
        self.num_workers = self.timeout = 0

    loader.__init__ = construct_without_workers


sys.meta_path.insert(0, Finder())
