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

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "genlab"  # the same imports give the same bytes


def import_graph() -> nx.DiGraph:
    """Packages of genlab, with an edge from each to those that it imports."""
    graph = grimp.build_graph("genlab")
    edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = tuple(name.split(".")[1] for name in (module, imported) if "." in name)
            if len(pair) == 2 and pair[0] != pair[1]:
                edges.add(pair)
    return nx.DiGraph(sorted(edges))


def draw(path: Path) -> None:
    """Write the diagram as SVG; each row imports lower ones only."""
    every = import_graph()
    for level, row in enumerate(nx.topological_generations(every.reverse())):
        nx.set_node_attributes(every, dict.fromkeys(row, level), "level")
    places = nx.multipartite_layout(every, subset_key="level", align="horizontal")
    shown = nx.transitive_reduction(every)  # what a chain of others implies hides the order
    figure, axes = plt.subplots(figsize=(9, 8))
    arrows = {"edgelist": sorted(shown.edges), "edge_color": "#8a9199", "node_size": 1500}
    nx.draw_networkx_edges(shown, places, ax=axes, connectionstyle="arc3,rad=0.06", **arrows)
    box = {"boxstyle": "round,pad=0.45", "facecolor": "#e8f0fe", "edgecolor": "#3b6fb6"}
    nx.draw_networkx_labels(every, places, ax=axes, font_size=11, bbox=box)
    axes.margins(0.1)
    axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    print(f"{path}: {len(places)} packages, {every.number_of_edges()} imports")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/packages.svg"))
