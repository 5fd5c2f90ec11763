"""Make three hospitals with tables as in the OMOP common data model, made-up patients, and a query for each.

    python examples/omop/make.py hospitals

prints the command that evaluates them.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np

NAMES = ("north", "south", "east")
PATIENTS = 2000

TABLES = """
CREATE TABLE person (person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER NOT NULL, year_of_birth INTEGER NOT NULL);
CREATE TABLE visit_occurrence (visit_occurrence_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL,
  visit_concept_id INTEGER NOT NULL, visit_start_date TEXT NOT NULL);
CREATE TABLE death (person_id INTEGER PRIMARY KEY, death_date TEXT NOT NULL);
CREATE TABLE prediction (visit_occurrence_id INTEGER PRIMARY KEY, risk REAL NOT NULL);
"""

# Death within thirty days of admission; concept 9201 is an inpatient visit, 8532 a female.
QUERY = """
SELECT d.person_id IS NOT NULL AS died, p.risk, v.person_id AS patient,
  CASE person.gender_concept_id WHEN 8532 THEN 'F' ELSE 'M' END AS sex
FROM visit_occurrence AS v
JOIN person ON person.person_id = v.person_id
JOIN prediction AS p ON p.visit_occurrence_id = v.visit_occurrence_id
LEFT JOIN death AS d ON d.person_id = v.person_id
  AND julianday(d.death_date) - julianday(v.visit_start_date) BETWEEN 0 AND 30
WHERE v.visit_concept_id = 9201
"""


def make(folder: Path, name: str, seed: int) -> Path:
    """One hospital: its database, and the TOML file of its query."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    database, query = folder / f"{name}.db", folder / f"{name}.toml"
    database.unlink(missing_ok=True)
    born = rng.integers(1930, 2000, PATIENTS)
    logit = -3.0 + 0.03 * (1990 - born) + rng.normal(0, 1, PATIENTS)
    dies = rng.random(PATIENTS) < 1 / (1 + np.exp(-logit))
    risk = 1 / (1 + np.exp(-(logit + rng.normal(0, 0.7, PATIENTS))))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)
        sex = rng.choice([8507, 8532], PATIENTS).tolist()
        patients = range(1, PATIENTS + 1)
        connection.executemany("INSERT INTO person VALUES (?, ?, ?)", zip(patients, sex, born.tolist(), strict=True))
        days = [f"2026-{1 + number % 9:02}-{1 + number % 28:02}" for number in patients]
        connection.executemany(
            "INSERT INTO visit_occurrence VALUES (?, ?, 9201, ?)", zip(patients, patients, days, strict=True)
        )
        connection.executemany("INSERT INTO prediction VALUES (?, ?)", zip(patients, risk.tolist(), strict=True))
        dead = [(number, day) for number, day, died in zip(patients, days, dies, strict=True) if died]
        connection.executemany("INSERT INTO death VALUES (?, date(?, '+9 days'))", dead)
    query.write_text(f'name = "{name}"\ndatabase = "sqlite:{database.name}"\nquery = """{QUERY}"""\n')
    return query


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals")
    made = [make(place, name, seed) for seed, name in enumerate(NAMES)]
    parties = " ".join(f"--party {path}" for path in made)
    print(f"fheval evaluate {parties} --label-column died --score-column risk --group-column sex")
