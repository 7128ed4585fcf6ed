"""Leaderboard of contenders: standings with intervals, shared ranks, and agreement of people."""
