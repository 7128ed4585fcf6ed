"""Record the runs of examples/agent again, with the scripted expert of the tests as the model.

python scripts/record_agent.py        # needs data/fashion_mnist; about ten minutes
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from benchmarks.agent import scripted_roles  # noqa: E402
from loopback import Server  # noqa: E402
from scripted_llm import reply  # noqa: E402

from genlab.agent.config import Settings  # noqa: E402
from genlab.agent.goals.parser import parse_goal  # noqa: E402
from genlab.agent.run import run  # noqa: E402
from genlab.agent.workspace import JOURNAL, open_workspace  # noqa: E402
from genlab.core.params import AgentParams, load_params  # noqa: E402

GENERATIVE = "Design a VAE for Fashion-MNIST, bits per dimension at most 3.65"
RUNS = {
    "expert-loop": ("loop", ""),
    "expert-tools": ("tools", ""),
    "generative": ("loop", GENERATIVE),
}
"""File -> mode and goal; the empty goal is the default one of params.yaml."""


def main() -> None:
    """Make the runs, and copy their journals."""
    params = load_params(ROOT / "params.yaml")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with tempfile.TemporaryDirectory(prefix="genlab-record-") as scratch, Server(reply) as server:
        for name in sys.argv[1:] or RUNS:
            mode, goal = RUNS[name]
            changes = {"mode": mode, "backend": "openai", "compare_with_search": False}
            content = params.agent.model_dump() | changes | scripted_roles(server.url)
            agent = AgentParams.model_validate(content)
            settings = Settings(parse_goal(goal or agent.goal), agent, params.seed)
            workspace = open_workspace(Path(scratch) / name, settings.goal, settings.key)
            print(f"{name}: {run(settings, workspace)}")
            shutil.copyfile(workspace.root / JOURNAL, ROOT / "examples/agent" / f"{name}.jsonl")


if __name__ == "__main__":
    main()
