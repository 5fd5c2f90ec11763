"""What of its file a vault answers about, as its operator decided: a study's names for it, and the file's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from fheval.counting import UNNAMED, TableColumns
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.protocols.round import AGGREGATOR
from fheval.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedColumns:
    """The models, classes and clusters that a vault lets rounds ask about.

    `models` has the column of each model's scores, and `classes` what each class is called in the file, both by the
    name that studies use. Without models there is one, unnamed, in the column `score`, else `s`; a study that
    names no model is about the only one there is. `label` and `cluster` are columns of the file that no study names.
    """

    label: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None

    def __post_init__(self) -> None:
        for noun, names in (("model", self.models), ("class", self.classes)):
            if not all((*names, *names.values())):
                raise ConfigError(f"A {noun} has no name. Name each {noun}.")
            if len(set(names.values())) != len(names):
                listed = ", ".join(map(repr, names.values()))
                raise ConfigError(f"Two names stand for one {noun} among {listed}. Give each one name.")
        if len(self.classes) == 1:
            raise ConfigError("One class cannot be told from others. Name all classes.")

    def in_words(self) -> str:
        """What rounds may ask about, for the operator's eyes.

        >>> AllowedColumns(models={"old": "risk_2019", "new": "risk"}, cluster="patient").in_words()
        "models 'old', 'new'; clusters of rows"
        """
        parts = [f"models {_listed(self.models)}" if self.models else "one model, without a name"]
        if self.classes:
            parts.append(f"classes {_listed(self.classes)}")
        if self.cluster is not None:
            parts.append("clusters of rows")
        return "; ".join(parts)

    def everything(self) -> TableColumns:
        """All columns that may ever be asked for."""
        return self._columns(self.models.values(), self.classes.values(), clusters=self.cluster is not None)

    def translate(self, study: Study) -> Study:
        """The same study in this file's names; one that names what is not allowed is refused.

        It has the same forms in the same order, for these do not depend on names.
        """
        if study.by_cluster and self.cluster is None:
            raise _refused("The study is about clusters, and this vault has no --cluster-column")
        return msgspec.structs.replace(study, models=self._own_models(study), classes=self._own_classes(study))

    def of(self, own: Study) -> TableColumns:
        """The columns that a study in the file's names takes."""
        models = () if own.models == (UNNAMED,) else own.models
        return self._columns(models, own.classes, clusters=own.by_cluster)

    def _columns(self, models: Iterable[str], classes: Iterable[str], *, clusters: bool) -> TableColumns:
        return TableColumns(
            label=self.label, models=tuple(models), classes=tuple(classes), cluster=self.cluster if clusters else None
        )

    def _own_models(self, study: Study) -> tuple[str, ...]:
        if study.models == (UNNAMED,):
            if len(self.models) > 1:
                raise _refused(f"The study names no model, and this vault has {_listed(self.models)}")
            return tuple(self.models.values()) or study.models
        return _translated("model", study.models, self.models, "--score-column")

    def _own_classes(self, study: Study) -> tuple[str, ...]:
        # Asked about some of the classes, a vault would show by refusing whether it has rows of the others.
        missing = [name for name in self.classes if name not in study.classes]
        if missing:
            raise _refused(f"The study leaves out of this vault's classes: {_listed(missing)}")
        return _translated("class", study.classes, self.classes, "--class")


def _translated(noun: str, asked: Iterable[str], allowed: Mapping[str, str], option: str) -> tuple[str, ...]:
    for name in asked:
        if name not in allowed:
            there = _listed(allowed) if allowed else "none"
            raise _refused(f"The study names the {noun} {name!r}, and with {option} this vault allows {there}")
    return tuple(allowed[name] for name in asked)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _refused(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what}. The round was refused.", step="round", culprit=AGGREGATOR)
