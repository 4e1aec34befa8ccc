"""The memory law against public start-up logs, beside two public formulas.

Run ``python -m benchmarks.sizing [--cases FILE] [--models FILE] [--folds N]``. Prints the error of
weights and KV cache (median, 90th percentile, worst), the outcomes as a confusion table, and the
same for folds that the constants were not fitted to. A case that names no model whose shape is
known, or no GPU and no memory, has no answer and stands apart; of all others a missing verdict
counts as a refusal.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fit_memory import CASES, fit
from benchmarks.public_formulas import aiconfigurator, weights_and_kv
from tokenworks.engines.memory_cases import SizedCase, size_case
from tokenworks.facts.memory_constants import Constants
from tokenworks.facts.model_reading import read_models
from tokenworks.facts.shipped_models import model_shapes

ANSWERS = ("reported", "outcome", "notes", "failed_resource", "label_confidence", "completeness")
UNNAMED = "unnamed"
NO_VERDICT = "no verdict"
VERDICTS = ("fits", "kv_too_small", "does_not_fit", NO_VERDICT, UNNAMED)
NAMING = ("model", "gpu", "num_hidden_layers")
"""Keys at which the law refuses what names no model, no shape or no GPU."""

BUDGET_PARTS = (
    "weights_gib_per_gpu",
    "activation_peak_gib",
    "non_torch_gib",
    "kv_cache_gib_per_gpu",
)
MOST_OVER = 1.02

Records = Mapping[str, Mapping[str, Any]]
Predict = Callable[[Mapping[str, Any], Records], SizedCase]


@dataclass(frozen=True)
class Outcome:
    """One case beside what was predicted for it."""

    case: Mapping[str, Any]
    sized: SizedCase

    @property
    def started(self) -> bool:
        """Whether the engine came up."""
        return bool(self.case["outcome"] == "started")

    @property
    def verdict(self) -> str:
        """The predicted outcome."""
        return self.sized.verdict or (NO_VERDICT if self.named else UNNAMED)

    @property
    def named(self) -> bool:
        """Whether the case names both a model with a shape and a GPU or its memory."""
        gpu = self.case.get("gpu") or {}
        refused_at = (self.sized.error or "").split(":")[0]
        return bool(self.case.get("model") and any(gpu.values())) and refused_at not in NAMING

    @property
    def contradicts_itself(self) -> bool:
        """Whether a vLLM log reports more in use than the share that is recorded beside it.

        The parts of a budget add up to share x total within 0.02 % in every other such log on one
        stage, so that more than 2 % over is a share that was written down wrong.
        """
        said = self.case.get("reported") or {}
        gpu, share = self.case.get("gpu") or {}, self.case.get("memory_fraction")
        parts = [float(said[part]) for part in BUDGET_PARTS if said.get(part) is not None]
        total = gpu.get("reported_total_gib")
        if (
            self.case["engine"] != "vllm"
            or not share
            or not total
            or len(parts) < len(BUDGET_PARTS)
        ):
            return False
        return sum(parts) > MOST_OVER * float(share) * float(total)

    def error(self, reported: str, predicted: float | None) -> float | None:
        """Relative error of one figure, where a log states it above zero."""
        stated = (self.case.get("reported") or {}).get(reported)
        if not stated or stated <= 0 or predicted is None:
            return None
        return abs(predicted / float(stated) - 1)


def predict(cases: Iterable[Mapping[str, Any]], models: Records, law: Predict) -> list[Outcome]:
    """Every case through one law, which never sees the answers."""
    found = []
    for case in cases:
        asked = {key: value for key, value in case.items() if key not in ANSWERS}
        found.append(Outcome(case, law(asked, models)))
    return found


def ours(constants: Constants | None = None) -> Predict:
    """The project's law, with these constants instead of the shipped ones."""
    return lambda case, models: size_case(case, models, constants)


def held_out(
    cases: Sequence[Mapping[str, Any]], models: Records, folds: int
) -> list[list[Outcome]]:
    """Outcomes of each fold with constants fitted to all other folds."""
    found = []
    for fold in range(folds):
        train = [case for i, case in enumerate(cases) if i % folds != fold]
        test = [case for i, case in enumerate(cases) if i % folds == fold]
        found.append(predict(test, models, ours(fit(train))))
    return found


def spread(errors: Iterable[float | None]) -> str:
    """Median, 90th percentile and worst of relative errors, as text."""
    known = sorted(error for error in errors if error is not None)
    if not known:
        return "none"
    at = [known[int(share * (len(known) - 1))] for share in (0.5, 0.9, 1.0)]
    return f"median {at[0]:7.2%}  p90 {at[1]:8.1%}  worst {at[2]:9.1%}  (n={len(known)})"


def report(title: str, outcomes: Sequence[Outcome]) -> str:
    """Errors and the confusion table of one law."""
    weights = [o.error("weights_gib_per_gpu", o.sized.weights_gib_per_gpu) for o in outcomes]
    cache = [o.error("kv_cache_gib_per_gpu", o.sized.kv_cache_gib_per_gpu) for o in outcomes]
    tokens = [o.error("kv_cache_tokens", o.sized.kv_cache_tokens) for o in outcomes]
    lines = [
        title,
        f"  weights    {spread(weights)}",
        f"  KV cache   {spread(cache)}",
        f"  KV tokens  {spread(tokens)}",
        *confusion(outcomes),
        *rates(outcomes),
    ]
    return "\n".join(lines)


def confusion(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """Rows of what happened against what was predicted."""
    counted = Counter((str(o.case["outcome"]), o.verdict) for o in outcomes)
    yield "  " + f"{'outcome':16}" + "".join(f"{verdict:>14}" for verdict in VERDICTS)
    for outcome in sorted({str(o.case["outcome"]) for o in outcomes}, reverse=True):
        counts = (counted[outcome, verdict] for verdict in VERDICTS)
        yield "  " + f"{outcome:16}" + "".join(f"{count:>14}" for count in counts)


def rates(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """The two figures that matter: failed starts called fitting, and good ones refused."""
    failed = [o for o in outcomes if not o.started]
    wrong = sum(o.verdict == "fits" for o in failed)
    started = [o for o in outcomes if o.started and o.named]
    refused = sum(o.verdict != "fits" for o in started)
    yield f'  failed starts called "fits": {wrong} of {len(failed)}'
    share = f" ({refused / len(started):.1%})" if started else ""
    yield f"  started cases refused: {refused} of {len(started)} with a model and a GPU{share}"
    sound = [o for o in started if not o.contradicts_itself]
    if len(sound) < len(started):
        refused = sum(o.verdict != "fits" for o in sound)
        share = f"{refused / len(sound):.1%}" if sound else "none"
        yield f"  without logs that contradict themselves: {refused} of {len(sound)} ({share})"
    answered = sum(o.verdict not in (NO_VERDICT, UNNAMED) for o in outcomes)
    unnamed = sum(not o.named for o in outcomes)
    missing = len(outcomes) - answered - unnamed
    yield f"  verdicts: {answered}; {UNNAMED}: {unnamed}; {NO_VERDICT}: {missing}"


def main() -> None:
    """Print every comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=Path, default=CASES)
    options.add_argument("--models", type=Path)
    options.add_argument("--folds", type=int, default=5)
    asked = options.parse_args()
    cases = json.loads(asked.cases.read_text("utf-8"))
    models = read_models(asked.models) if asked.models else model_shapes()
    started = time.perf_counter()
    outcomes = predict(cases, models, ours())
    milliseconds = (time.perf_counter() - started) * 1000
    folds = held_out(cases, models, asked.folds)
    together = [o for fold in folds for o in fold]
    parts = [
        report(f"tokenworks, fitted to all ({len(cases)} cases)", outcomes),
        report(f"tokenworks, {asked.folds} held-out folds together", together),
        *(report(f"  held-out fold {i + 1}", fold) for i, fold in enumerate(folds)),
        report("weights and KV cache only", predict(cases, models, weights_and_kv)),
        report("aiconfigurator 0.12.0's constants", predict(cases, models, aiconfigurator)),
        f"{len(cases)} cases sized in {milliseconds:.0f} ms",
    ]
    sys.stdout.write("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
