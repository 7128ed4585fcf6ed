"""Run cases through contenders: the runner, its requests, what arrives, scores and events."""
