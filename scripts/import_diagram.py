"""Draw the packages of genlab and the imports between them.

python scripts/import_diagram.py [docs/pictures/packages.svg]
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
import matplotlib
import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.patches import FancyArrowPatch

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "genlab"  # the same imports give the same bytes


def import_edges() -> set[tuple[str, str]]:
    """Pairs (importer, imported) of packages of genlab."""
    graph = grimp.build_graph("genlab")
    edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = tuple(name.split(".")[1] for name in (module, imported) if "." in name)
            if len(pair) == 2 and pair[0] != pair[1]:
                edges.add((pair[0], pair[1]))
    return edges


def draw(path: Path) -> None:
    """Write the diagram as SVG."""
    every = nx.DiGraph(sorted(import_edges()))
    # From the bottom up: each row imports lower ones only.
    rows = [sorted(row) for row in nx.topological_generations(every.reverse())]
    # Imports that a chain of others implies would only hide the order.
    edges = nx.transitive_reduction(every).edges
    widest = max(map(len, rows))
    place = {
        name: ((column + (widest - len(row)) / 2) * 2.2, 1.5 * level)
        for level, row in enumerate(rows)
        for column, name in enumerate(row)
    }
    figure, axes = plt.subplots(figsize=(9, 1.1 * len(rows) + 0.6))
    for importer, imported in sorted(edges):
        arrow = FancyArrowPatch(
            place[importer],
            place[imported],
            arrowstyle="-|>",
            mutation_scale=11,
            shrinkA=16,
            shrinkB=16,
            color="#8a9199",
            linewidth=0.8,
            connectionstyle="arc3,rad=0.06",
        )
        axes.add_patch(arrow)
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": "#e8f0fe", "edgecolor": "#3b6fb6"}
        axes.text(x, y, name, ha="center", va="center", fontsize=11, bbox=box)
    axes.set_xlim(-1.2, (widest - 1) * 2.2 + 1.2)
    axes.set_ylim(-0.7, 1.5 * (len(rows) - 1) + 0.7)
    axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    print(f"{path}: {len(place)} packages, {every.number_of_edges()} imports")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/packages.svg"))
