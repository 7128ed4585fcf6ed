"""The store's schema as named steps: append a step, never change one that was released.

A database remembers the names of the steps it has taken (table `migrations`). An older one takes
the missing steps when it is opened; one that knows a step not listed here is of a newer genlab.
The idea is that of simonw/llm's migrations.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "0001_runs_and_items",
        (
            """
            CREATE TABLE runs (
                run_id TEXT PRIMARY KEY,
                created TEXT NOT NULL,
                cases TEXT NOT NULL,
                tools TEXT NOT NULL,
                options TEXT NOT NULL,
                ended TEXT,
                ending TEXT NOT NULL DEFAULT ''
            )
            """,
            """
            CREATE TABLE run_items (
                item_id INTEGER PRIMARY KEY AUTOINCREMENT,
                run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
                case_id TEXT NOT NULL,
                tool_id TEXT NOT NULL,
                status TEXT NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'generating',
                    'generated', 'evaluating', 'scored', 'failed', 'skipped')),
                image TEXT NOT NULL DEFAULT '',
                image_sha256 TEXT NOT NULL DEFAULT '',
                score REAL CHECK (score IS NULL OR (score >= 0 AND score <= 1)),
                components TEXT NOT NULL DEFAULT '{}',
                details TEXT NOT NULL DEFAULT '{}',
                failure_kind TEXT NOT NULL DEFAULT '',
                failure TEXT NOT NULL DEFAULT '',
                cost REAL NOT NULL DEFAULT 0,
                seconds REAL NOT NULL DEFAULT 0,
                attempts INTEGER NOT NULL DEFAULT 0,
                updated TEXT NOT NULL DEFAULT '',
                UNIQUE (run_id, case_id, tool_id)
            )
            """,
            "CREATE INDEX run_items_by_tool ON run_items (tool_id, status)",
            "CREATE INDEX run_items_by_image ON run_items (image_sha256)",
        ),
    ),
    (
        "0002_human_scores",
        (
            """
            CREATE TABLE human_scores (
                rating_id INTEGER PRIMARY KEY AUTOINCREMENT,
                subject_kind TEXT NOT NULL,
                subject_hash TEXT NOT NULL,
                rater TEXT NOT NULL,
                stars INTEGER NOT NULL CHECK (stars BETWEEN 1 AND 5),
                blind INTEGER NOT NULL,
                session TEXT NOT NULL DEFAULT '',
                run_item_id INTEGER REFERENCES run_items (item_id) ON DELETE SET NULL,
                rated TEXT NOT NULL,
                UNIQUE (subject_kind, subject_hash, rater)
            )
            """,
            "CREATE INDEX human_scores_by_item ON human_scores (run_item_id)",
            """
            CREATE TABLE human_score_history (
                history_id INTEGER PRIMARY KEY AUTOINCREMENT,
                subject_kind TEXT NOT NULL,
                subject_hash TEXT NOT NULL,
                rater TEXT NOT NULL,
                stars INTEGER CHECK (stars BETWEEN 1 AND 5),
                blind INTEGER NOT NULL,
                session TEXT NOT NULL DEFAULT '',
                rated TEXT NOT NULL
            )
            """,
        ),
    ),
    (
        "0003_preferences",
        (
            """
            CREATE TABLE preferences (
                preference_id INTEGER PRIMARY KEY AUTOINCREMENT,
                rater TEXT NOT NULL,
                first_item INTEGER NOT NULL REFERENCES run_items (item_id) ON DELETE CASCADE,
                second_item INTEGER NOT NULL REFERENCES run_items (item_id) ON DELETE CASCADE,
                winner INTEGER NOT NULL,
                session TEXT NOT NULL DEFAULT '',
                rated TEXT NOT NULL,
                CHECK (first_item < second_item AND winner IN (first_item, second_item)),
                UNIQUE (rater, first_item, second_item)
            )
            """,
        ),
    ),
    (
        "0004_opinions",
        (
            """
            CREATE TABLE opinions (
                opinion_id INTEGER PRIMARY KEY AUTOINCREMENT,
                dataset TEXT NOT NULL,
                subject_kind TEXT NOT NULL,
                subject_hash TEXT NOT NULL,
                hypothesis TEXT NOT NULL,
                rater TEXT NOT NULL,
                agrees INTEGER NOT NULL CHECK (agrees IN (0, 1)),
                said TEXT NOT NULL,
                UNIQUE (subject_hash, hypothesis, rater)
            )
            """,
            "CREATE INDEX opinions_by_dataset ON opinions (dataset)",
        ),
    ),
)
