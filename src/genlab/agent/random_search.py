"""Random search with the budget of a run: the baseline that a planner has to beat.

Its attempts depend on goal, budget, evaluator and seed alone, so that the first n of them are the
same for every run towards a goal. Stage agent_search makes them once. A run is compared with as
many of them as it has made itself; if the stage has too few, the run searches in its own workspace.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from genlab.agent.config import Problem, Settings
from genlab.agent.library.modules import Module, assemble
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.library.trials import TrainAhead, Trial
from genlab.agent.loop import Loop, Progress
from genlab.agent.planning.planner import Planner
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, WEIGHTS, Attempt, Draft, Registry
from genlab.agent.workspace import PROJECT, SEARCH, Workspace, create_project, read_key
from genlab.core.errors import GenlabError

STAGE = "agent_search"  # name of the stage, and of its folder beside the datasets' folders
MAX_STAGE_ATTEMPTS = 20  # a run that makes more attempts searches for the others itself
ATTEMPT_FILES = (CODE, CONFIG_FILE, SUMMARY, WEIGHTS)


def find_finished_searches(settings: Settings) -> list[Workspace]:
    """Find the workspace that stage agent_search wrote for these settings: one, or none."""
    workspace = Workspace(settings.data / STAGE)
    written = (workspace.root / PROJECT).is_file()
    if written and read_key(workspace.root) == settings.search_key:
        return [workspace]
    return []


def search(
    problem: Problem,
    workspace: Workspace,
    attempts: int,
    progress: Progress,
    sources: Sequence[Workspace] = (),
) -> list[Attempt]:
    """Make a number of attempts by random search; resumes a search in the workspace.

    It goes on after the goal is met. sources: workspaces whose finished trainings are taken.
    """
    limits = {"max_iterations": attempts, "patience": max(1, attempts), "max_seconds": 0.0}
    settings = problem.settings
    params = settings.params.model_copy(update=limits)
    search_settings = replace(settings, params=params, stop_at_goal=False)
    search_problem = replace(problem, settings=search_settings)
    Registry(workspace).recover()
    with Toolbox(workspace, search_settings, sources=sources) as toolbox:
        planner = Planner(search_problem)
        loop = SearchLoop(search_problem, toolbox, progress, None, planner=planner)
        loop.run()
    Registry(workspace).unnumber_others(loop.attempts)
    return loop.attempts


def open_search_workspace(root: Path, settings: Settings) -> Workspace:
    """Open the workspace of a search; one of another key is removed and created again."""
    if not (root / PROJECT).exists() or read_key(root) != settings.search_key:
        shutil.rmtree(root, ignore_errors=True)  # of other code, or killed while it was created
        create_project(root, settings.goal, settings.search_key)
    return Workspace(root)


def run_search_baseline(
    problem: Problem, workspace: Workspace, attempts: int, progress: Progress
) -> None:
    """Fill the folder `search` of a run's workspace with a number of attempts of random search.

    They are copied from the stage's workspace where it has enough, and made otherwise.
    """
    settings = problem.settings
    target = open_search_workspace(workspace.root / SEARCH, settings)
    sources = find_finished_searches(settings)
    for source in sources:
        finished = Registry(source).read_attempts()[:attempts]
        if len(finished) == attempts:
            copy_attempts(finished, source, target)
            Registry(target).unnumber_others(finished)
            return

    def show(line: str) -> None:
        progress(f"search: {line.strip()}")

    search(problem, target, attempts, show, [workspace, *sources])


def copy_attempts(attempts: Sequence[Attempt], source: Workspace, target: Workspace) -> None:
    """Copy attempts with their files to another workspace."""
    for attempt in attempts:
        copy_files(source.root / attempt.experiment_dir, target.root / attempt.experiment_dir)
        Registry(target).put(attempt)


def write_stage_workspace(settings: Settings, workspace: Workspace, target: Path) -> list[Attempt]:
    """Write the attempts of a search as a workspace without times and dates.

    The same parameters give the same bytes. Returns the attempts as they were written.
    """
    unfinished = target.with_name(f".{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    stage_workspace = create_project(unfinished, settings.goal, settings.search_key)
    registry = Registry(stage_workspace)
    attempts = Registry(workspace).read_numbered()
    run_ids = {attempt.run_id: f"search_{attempt.number:04d}" for attempt in attempts}
    for attempt in attempts:
        folder = stage_workspace.experiments / run_ids[attempt.run_id]
        copy_files(workspace.root / attempt.experiment_dir, folder)
        changes: dict[str, Any] = {
            "run_id": folder.name,
            "experiment_dir": stage_workspace.relative(folder),
            "parent": run_ids.get(attempt.parent, ""),
            "timestamp": "",
            "wall_seconds": 0.0,
            "seeds": [{**result, "seconds": 0.0} for result in attempt.seeds],
            "confirmation": [{**result, "seconds": 0.0} for result in attempt.confirmation],
        }
        if "seconds" in attempt.metrics_summary:
            changes["metrics_summary"] = {**attempt.metrics_summary, "seconds": 0.0}
        registry.put(attempt.model_copy(update=changes))
    registry.write()
    registry.path.with_suffix(".lock").unlink(missing_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    return Registry(Workspace(target)).read_attempts()


def copy_files(source: Path, target: Path) -> None:
    """Copy those of an attempt's files that exist: code, config, summary and weights."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ATTEMPT_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


@dataclass
class SearchLoop(Loop):
    """A loop that keeps all cores busy: it trains ahead what it will probably need.

    Beside the first seed of an attempt it trains the second one. Beside the last seed it trains the
    first seed of the next attempt, as search would propose it by the seeds that are finished. The
    results are those of a plain loop: a training that turns out not to be needed is not used.
    """

    def _train(self, draft: Draft, module: Module | None) -> Attempt | None:
        self.toolbox.trainings.cancel_ahead()
        return super()._train(draft, module)

    def plan_ahead(self, draft: Draft) -> TrainAhead | None:
        params = self.settings.params
        pool = self.toolbox.trainings

        def start_ahead(trial: Trial, seed: int) -> None:
            pool.start_ahead(trial.key(seed), partial(trial.train, seed))

        def train_ahead(trial: Trial, attempt: Attempt) -> None:
            missing = params.seeds - len(attempt.seeds)
            if not attempt.seeds and missing > 1:
                start_ahead(trial, trial.first_seed + 1)
            elif missing == 1 and draft.number < params.max_iterations:
                with suppress(GenlabError):  # search finds no further network
                    next_trial = self.predict_trial(draft, attempt)
                    start_ahead(next_trial, next_trial.first_seed)

        parallel = params.candidates == 1 and (os.cpu_count() or 1) > 1
        return train_ahead if parallel else None

    def predict_trial(self, draft: Draft, attempt: Attempt) -> Trial:
        """Predict the trial that follows an attempt, from the seeds that are finished.

        draft: that of the attempt. Raises a GenlabError where search finds no further network.
        """
        decided = attempt.model_copy(update=draft.model_dump(exclude={"failure", "notes"}))
        proposal = self.planner.search([*self.attempts, decided], [])
        config, training = proposal.design
        source = assemble(self.toolbox, config).source
        return Trial(self.toolbox, source, proposal.model_name, training)
