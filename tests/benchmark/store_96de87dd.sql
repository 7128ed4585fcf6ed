-- A store as 96de87dd wrote it (sqlite3 .dump), with preferences.
BEGIN TRANSACTION;
CREATE TABLE human_scores (
	rating_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	subject_kind VARCHAR NOT NULL, 
	subject_hash VARCHAR NOT NULL, 
	rater VARCHAR NOT NULL, 
	stars INTEGER NOT NULL, 
	context VARCHAR NOT NULL, 
	session VARCHAR NOT NULL, 
	rated VARCHAR NOT NULL, 
	UNIQUE (subject_kind, subject_hash, rater, context), 
	CHECK (stars BETWEEN 1 AND 5), 
	CHECK (context IN ('blind', 'grid', 'judge'))
);
INSERT INTO "human_scores" VALUES(1,'run_item','0000000000000000000000000000000000000000000000000000000000000001','ann',4,'blind','s','2026-11-28T23:54:39.845004+00:00');
CREATE TABLE migrations (name TEXT PRIMARY KEY, taken TEXT NOT NULL);
INSERT INTO "migrations" VALUES('0001_runs_and_items','2026-11-28T23:54:39.677806+00:00');
INSERT INTO "migrations" VALUES('0002_human_scores','2026-11-28T23:54:39.678627+00:00');
INSERT INTO "migrations" VALUES('0003_preferences','2026-11-28T23:54:39.678952+00:00');
INSERT INTO "migrations" VALUES('0004_opinions','2026-11-28T23:54:39.679207+00:00');
INSERT INTO "migrations" VALUES('0005_contenders','2026-11-28T23:54:39.679529+00:00');
INSERT INTO "migrations" VALUES('0006_judging_costs','2026-11-28T23:54:39.679660+00:00');
CREATE TABLE opinions (
	opinion_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	dataset VARCHAR NOT NULL, 
	subject_kind VARCHAR NOT NULL, 
	subject_hash VARCHAR NOT NULL, 
	hypothesis VARCHAR NOT NULL, 
	rater VARCHAR NOT NULL, 
	agrees BOOLEAN NOT NULL, 
	said VARCHAR NOT NULL, 
	UNIQUE (subject_hash, hypothesis, rater)
);
INSERT INTO "opinions" VALUES(1,'arc_grids','vae_sample','abababababababababababababababababababababababababababababababab','small','ann',1,'2026-11-28T23:54:39.857850+00:00');
CREATE TABLE preferences (
	preference_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	rater VARCHAR NOT NULL, 
	first_item INTEGER NOT NULL, 
	second_item INTEGER NOT NULL, 
	winner INTEGER NOT NULL, 
	session VARCHAR NOT NULL, 
	rated VARCHAR NOT NULL, 
	UNIQUE (rater, first_item, second_item), 
	CHECK (first_item < second_item AND winner IN (first_item, second_item)), 
	FOREIGN KEY(first_item) REFERENCES run_items (item_id) ON DELETE CASCADE, 
	FOREIGN KEY(second_item) REFERENCES run_items (item_id) ON DELETE CASCADE
);
INSERT INTO "preferences" VALUES(1,'ann',1,2,1,'','2026-11-28T23:54:39.793007+00:00');
INSERT INTO "preferences" VALUES(2,'ann',2,3,3,'','2026-11-28T23:54:39.815951+00:00');
INSERT INTO "preferences" VALUES(3,'bob',1,3,3,'','2026-11-28T23:54:39.834568+00:00');
CREATE TABLE run_items (
	item_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id VARCHAR NOT NULL, 
	case_id VARCHAR NOT NULL, 
	tool_id VARCHAR NOT NULL, 
	contender VARCHAR NOT NULL, 
	repeat INTEGER NOT NULL, 
	status VARCHAR NOT NULL, 
	image VARCHAR NOT NULL, 
	image_sha256 VARCHAR NOT NULL, 
	score FLOAT, 
	score_reference FLOAT, 
	components JSON NOT NULL, 
	details JSON NOT NULL, 
	failure_kind VARCHAR NOT NULL, 
	failure VARCHAR NOT NULL, 
	cost FLOAT NOT NULL, 
	seconds FLOAT NOT NULL, 
	attempts INTEGER NOT NULL, 
	updated VARCHAR NOT NULL, 
	UNIQUE (run_id, case_id, contender, repeat), 
	CHECK (status IN ('queued', 'generating', 'generated', 'evaluating', 'scored', 'failed', 'skipped')), 
	CHECK (score IS NULL OR (score >= 0 AND score <= 1)), 
	CHECK (score_reference IS NULL OR score_reference BETWEEN 0 AND 1), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
INSERT INTO "run_items" VALUES(1,'2026-01-01','one','a','a-8d9a7bba',1,'scored','','0000000000000000000000000000000000000000000000000000000000000001',0.5,NULL,'{"identity": null}','{"versions": {"constants": "2"}}','','',0.0,0.0,0,'2026-11-28T23:54:39.773231+00:00');
INSERT INTO "run_items" VALUES(2,'2026-01-01','one','b','b-8d9a7bba',1,'scored','','0000000000000000000000000000000000000000000000000000000000000002',0.5,NULL,'{"identity": null}','{"versions": {"constants": "2"}}','','',0.0,0.0,0,'2026-11-28T23:54:39.773231+00:00');
INSERT INTO "run_items" VALUES(3,'2026-01-01','one','c','c-8d9a7bba',1,'scored','','0000000000000000000000000000000000000000000000000000000000000003',0.5,NULL,'{"identity": null}','{"versions": {"constants": "2"}}','','',0.0,0.0,0,'2026-11-28T23:54:39.773231+00:00');
CREATE TABLE runs (
	run_id VARCHAR NOT NULL, 
	created VARCHAR NOT NULL, 
	cases JSON NOT NULL, 
	tools JSON NOT NULL, 
	repeats INTEGER NOT NULL, 
	max_cost FLOAT NOT NULL, 
	server BOOLEAN NOT NULL, 
	ended VARCHAR, 
	ending VARCHAR NOT NULL, 
	PRIMARY KEY (run_id)
);
INSERT INTO "runs" VALUES('2026-01-01','2026-01-01T00:00:00.000000+00:00','[{"case_id": "one"}]','[{"tool_id": "a", "title": "", "model": "", "options": {}, "version": ""}, {"tool_id": "b", "title": "", "model": "", "options": {}, "version": ""}, {"tool_id": "c", "title": "", "model": "", "options": {}, "version": ""}]',1,0.0,0,NULL,'');
CREATE INDEX run_items_by_contender ON run_items (contender, status);
CREATE INDEX run_items_by_image ON run_items (image_sha256);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('run_items',3);
INSERT INTO "sqlite_sequence" VALUES('preferences',3);
INSERT INTO "sqlite_sequence" VALUES('human_scores',1);
INSERT INTO "sqlite_sequence" VALUES('opinions',1);
COMMIT;
