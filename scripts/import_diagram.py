"""Draw the packages of genlab and the imports between them.

python scripts/import_diagram.py [docs/pictures/packages.svg]
"""

import sys
from pathlib import Path

import grimp
import matplotlib
import matplotlib.pyplot as plt
import networkx as nx

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "genlab"  # the same imports give the same bytes


def build_import_graph() -> nx.DiGraph:
    """Return the graph of genlab's packages and the imports between them."""
    graph = grimp.build_graph("genlab")
    edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            packages = tuple(name.split(".")[1] for name in (module, imported) if "." in name)
            if len(packages) == 2 and packages[0] != packages[1]:
                edges.add(packages)
    return nx.DiGraph(sorted(edges))


def draw(path: Path) -> None:
    """Write the diagram as SVG: a dot means that the row's package imports the column's.

    Packages are in topological order, so that no dot is below the diagonal.
    """
    graph = build_import_graph()
    names = list(nx.lexicographical_topological_sort(graph))
    rows, columns = zip(*((names.index(a), names.index(b)) for a, b in graph.edges), strict=True)
    figure, axes = plt.subplots(figsize=(6, 6))
    axes.scatter(columns, rows, s=90, color="#3b6fb6")
    axes.plot([-0.5, len(names) - 0.5], [-0.5, len(names) - 0.5], color="#b0b7bf", linewidth=1)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="left")
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), aspect="equal")
    axes.set_ylabel("package")
    axes.set_title("imports")
    axes.grid(color="#e6e9ec")
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    print(f"{path}: {len(names)} packages, {graph.number_of_edges()} imports")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/packages.svg"))
