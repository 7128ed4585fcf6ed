"""What the agent is asked for, read from a sentence and options."""

from genlab.agent.goals.goal import DATASETS, METRICS, Goal, Metric, Task
from genlab.agent.goals.parser import parse_goal

__all__ = ["DATASETS", "METRICS", "Goal", "Metric", "Task", "parse_goal"]
