"""Which columns of its file a member means by a study's names, as its operator said when it accepted the study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fheval.counting import UNNAMED, TableColumns
from fheval.errors import ConfigError
from fheval.study import Study
from fheval.wire import Message


class StudyColumns(Message, frozen=True, kw_only=True):
    """A study's names, and what they are called in the file.

    `models` has the column of each model's scores, and `classes` what each class is called in the file, both by the
    study's own names. A model without an entry has the column of its own name; one without a name, `score`, else `s`. A
    class without an entry goes by its own name. `label` and `cluster` are columns that no study names, and `group` the
    one of groups, where it is called otherwise than in the study.
    """

    label: str | None = None
    models: dict[str, str] = msgspec.field(default_factory=dict)
    classes: dict[str, str] = msgspec.field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for noun, names in (("model", self.models), ("class", self.classes)):
            if not all(names.values()):
                raise ConfigError(f"A {noun} has no name. Name each {noun}.")
            if len(set(names.values())) != len(names):
                listed = ", ".join(map(repr, names.values()))
                raise ConfigError(f"Two names stand for one {noun} among {listed}. Give each one name.")

    def translate(self, study: Study) -> Study:
        """The same study in this file's names; names that the study does not have are refused.

        It has the same forms in the same order, for these do not depend on names.
        """
        if study.by_cluster and self.cluster is None:
            raise ConfigError("The study resamples clusters. Name their column with --cluster-column.")
        models = _own("model", study.models, self.models, "--score-column")
        classes = _own("class", study.classes, self.classes, "--class")
        return msgspec.structs.replace(study, models=models, classes=classes)

    def of(self, own: Study) -> TableColumns:
        """The columns that a study in the file's names takes."""
        return TableColumns(
            label=self.label,
            models=() if own.models == (UNNAMED,) else own.models,
            classes=own.classes,
            cluster=self.cluster if own.by_cluster else None,
            group=(self.group or own.group_column) if own.groups else None,
        )


def _own(noun: str, asked: Iterable[str], given: Mapping[str, str], option: str) -> tuple[str, ...]:
    names = tuple(asked)
    for name in given:
        if name not in names:
            there = ", ".join(map(repr, names)) if any(names) else "none by name"
            raise ConfigError(f"{option} names the {noun} {name!r}, and the study has {there}. Name one of these.")
    return tuple(given.get(name, name) for name in names)
