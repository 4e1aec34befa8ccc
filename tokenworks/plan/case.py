"""One model beside the nodes that it asks for, on its way into a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenworks.engines.replica_memory import MemoryBudget, Served, memory_budget
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.sections import Model, NodePool
from tokenworks.environment.weights import Manifest
from tokenworks.environment.yaml_source import KeyPath
from tokenworks.errors import ConfigError, Problem
from tokenworks.facts.gpus import Gpu
from tokenworks.facts.instances import Instance
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.plan import sizes
from tokenworks.sizing.parallelism import Arrangement, Machines, Wanted


class Refused(Exception):  # noqa: N818  (never leaves the planner)
    """The problem because of which a model goes no further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a model is made of: the record as it was read, and the shape that it states.

    ``file`` is the model's own file as the environment names it, None for a shipped shape.
    """

    record: Mapping[str, Any]
    config: ModelConfig
    file: str | None


@dataclass(frozen=True)
class Place:
    """Where problems of one model are reported."""

    loaded: LoadedEnvironment
    index: int

    @property
    def model(self) -> Model:
        """The model that is planned."""
        return self.loaded.environment.models[self.index]

    def problem(self, *key: str, given: object, reason: str, remedy: str) -> Problem:
        """A problem with one of the model's keys."""
        path: KeyPath = ("models", self.index, *key)
        return self.loaded.source.problem(path, given=str(given), reason=reason, remedy=remedy)

    def shape(self) -> Shape | None:
        """The model's shape from its own files, else the shipped one; None where there is none."""
        model = self.model
        files = self.loaded.model_files.get(model.name)
        if files is not None:
            return Shape(record=files.record, config=files.config, file=files.named)
        repository = model.weights.repository
        record = model_shapes().get(repository)
        if record is None:
            return None
        return Shape(record=record, config=read_document(repository, record), file=None)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model beside the nodes it asks for; everything it refers to is known."""

    place: Place
    model: Model
    manifest: Manifest
    pool: NodePool
    instance: Instance
    gpu: Gpu
    shape: Shape

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.shape.config

    @property
    def machines(self) -> Machines:
        """The nodes of the pool."""
        return machines(self.instance, self.pool.size)

    @property
    def wanted(self) -> Wanted:
        """What of the arrangement the environment fixes."""
        return Wanted(
            tensor=self.model.tensor_parallel,
            pipeline=self.model.pipeline_parallel,
            expert=self.model.expert_parallel,
            attention_data=self.model.attention_data_parallel,
        )

    @property
    def served(self) -> Served:
        """What one replica is to hold."""
        return sizes.served(self.model, self.shape.record)

    def budget(self, way: Arrangement, gpu: Gpu | None = None) -> MemoryBudget:
        """The memory of one GPU under an arrangement; of the pool's GPUs unless told otherwise.

        Raises:
            Refused: when the law knows of none.
        """
        try:
            return memory_budget(self.served, gpu or self.gpu, way)
        except ConfigError as error:
            (first, *_) = error.problems
            raise Refused(
                self.place.problem(
                    *first.key.split("."),
                    given=first.given or "",
                    reason=first.reason,
                    remedy=first.remedy,
                )
            ) from error

    def changed(self, **fields: object) -> Case:
        """The same case with other values in some keys of the model."""
        return replace(self, model=self.model.model_copy(update=fields))


def machines(instance: Instance, nodes: int) -> Machines:
    """Nodes of one instance type, as parallelism sees them."""
    return Machines(
        nodes=nodes, gpus_per_node=instance.gpu_count, interconnect=instance.interconnect
    )
