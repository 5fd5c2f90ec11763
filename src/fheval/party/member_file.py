"""A member's file: where its kit is, what the authority sent, and which data answer which study, in TOML.

    kit = "kit"
    consortium = "consortium.fhev"

    [studies.sepsis-2026]
    data = "scores.csv"
    lineage = "sepsis-icu"
    label_column = "died"

Paths are relative to the file's own directory.
"""

from __future__ import annotations

import sys
from os.path import normpath
from pathlib import Path

import msgspec

from fheval.errors import ConfigError
from fheval.party.columns import StudyColumns
from fheval.study import Study

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class StudyData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which data answer a study, under which name they are counted, and what the study's names mean in the file."""

    data: str
    lineage: str
    label_column: str | None = None
    score_columns: str | dict[str, str] = msgspec.field(default_factory=dict)
    classes: dict[str, str] = msgspec.field(default_factory=dict)
    cluster_column: str | None = None

    def columns(self, study: Study) -> StudyColumns:
        """The columns in the study's own names; a single column is that of the only model."""
        models = self.score_columns
        if isinstance(models, str):
            if len(study.models) != 1:
                raise ConfigError(f"The study has {len(study.models)} models. Give score_columns = {{MODEL = COLUMN}}.")
            models = {study.models[0]: models}
        return StudyColumns(label=self.label_column, models=models, classes=self.classes, cluster=self.cluster_column)


class MemberFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `fheval vault up` is started with.

    `authority` is the fingerprint that was heard over the telephone; where it is missing and needed, it is asked for.
    """

    kit: str
    consortium: str | None = None
    authority: str | None = None
    state: str | None = None
    socket: str | None = None
    studies: dict[str, StudyData] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> MemberFile:
        """Read the file, its paths made absolute; a `ConfigError` says what is wrong with it, and where."""
        try:
            with path.open("rb") as file:
                found = msgspec.convert(tomllib.load(file), cls)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}). Check the path.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is no TOML ({error}). Mend it.") from error
        except msgspec.ValidationError as error:
            raise ConfigError(f"{path}: {error}. Mend it.") from error
        return found._at(path.absolute().parent)

    def _at(self, directory: Path) -> MemberFile:
        def absolute(text: str | None) -> str | None:
            return None if text is None else normpath(directory / text)

        return msgspec.structs.replace(
            self,
            kit=normpath(directory / self.kit),
            consortium=absolute(self.consortium),
            state=absolute(self.state),
            socket=absolute(self.socket),
            studies={
                name: msgspec.structs.replace(each, data=normpath(directory / each.data))
                for name, each in self.studies.items()
            },
        )
