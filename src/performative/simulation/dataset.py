"""The dataset of a simulation: its dimensions, what each of its variables means, and the optimum it was measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from performative.simulation.jobs import Job, Piece
from performative.simulation.worlds import Cast
from performative.validation import whole

if TYPE_CHECKING:
    import xarray as xr


_DIMENSIONS = {
    "violation": ("constraint",),
    "violation_positive": ("constraint",),
    "decision": ("coordinate",),
    "multipliers": ("constraint",),
}


def _meaning(long_name: str, description: str, units: str | None = None) -> dict[str, str]:
    return {"long_name": long_name, "description": description} | ({} if units is None else {"units": units})


_OF_LOSS = "units of the loss"
VARIABLES = {
    "t": _meaning("round t", "The recorded rounds; the warm-up, round 0, is not one of them.", "rounds"),
    "algorithm": _meaning("algorithm", "The names of the methods, as they were given."),
    "realization": _meaning("realization", "Independent runs; all methods meet the same noise in each."),
    "constraint": _meaning("constraint", "The names of the constraints."),
    "variant": _meaning("variant", "The labels of the variants, which share the noise."),
    "sensitivity": _meaning("sensitivity ε", "The size of the effect of a decision on the data."),
    "regret": _meaning(
        "regret Reg(t)/t",
        "Mean over rounds 1..t of PR(θ_s) − PR(θ_PO), at θ_s alone; negative where θ_s is infeasible.",
        _OF_LOSS,
    ),
    "violation": _meaning(
        "violation Vio(t)/t",
        "Mean over rounds 1..t of g(θ_s), signed: rounds inside a constraint cancel rounds outside it.",
    ),
    "violation_positive": _meaning(
        "positive violation Σ g(θ_s)⁺/t",
        "Mean over rounds 1..t of max(g(θ_s), 0): no round inside a constraint cancels one outside it.",
    ),
    "deviation": _meaning(
        "deviation ‖θ_t − θ_PO‖²", "Squared Euclidean distance of θ_t from the performative optimum."
    ),
    "estimation_error": _meaning(
        "estimation error ‖Â_t − A‖²", "Squared Frobenius norm of the error of the estimated effect."
    ),
    "deployed_regret": _meaning(
        "regret per deployment",
        "Mean of PR(θ) − PR(θ_PO) over every deployment so far, probes and warm-up included, weighted by samples.",
        _OF_LOSS,
    ),
    "deployed_violation": _meaning(
        "largest violation deployed",
        "Largest max_i g_i(θ)⁺ over every deployment so far, probes and warm-up included; 0 if all were feasible.",
    ),
    "outside": _meaning(
        "distance outside Θ",
        "Euclidean distance from Θ of the farthest deployment so far that may leave Θ; 0 if none did.",
    ),
    "dynamic_regret": _meaning(
        "dynamic regret",
        "Mean over rounds 1..t of PR_s(θ_s) − PR_s(θ*), θ* the optimum of the first recorded round that is not before s.",
        _OF_LOSS,
    ),
    "regret_error": _meaning(
        "standard error of the regret", "Standard error of `regret`, which is sampled; given θ_1..θ_t.", _OF_LOSS
    ),
    "deployed_regret_error": _meaning(
        "standard error of the regret per deployment",
        "Standard error of `deployed_regret`, which is sampled; given the decisions.",
        _OF_LOSS,
    ),
    "loss": _meaning("mean loss", "Mean loss of all samples so far, at the decisions that brought them.", _OF_LOSS),
    "loss_error": _meaning("standard error of the mean loss", "Standard error of `loss`.", _OF_LOSS),
    "optimum": _meaning(
        "optimum θ_PO",
        "What regret is measured against: the performative optimum or, in a moving world, the best fixed decision.",
    ),
    "optimum_risk": _meaning("risk of the optimum", "PR(θ_PO), as the solver computed it.", _OF_LOSS),
    "optimum_residual": _meaning(
        "KKT residual", "The KKT residual of the optimum, relative to the gradient's usual size."
    ),
    "optimum_local": _meaning(
        "local", "Whether the optimum is not proved to be the best decision: 1 if so, 0 if it is."
    ),
    "optimal_decision": _meaning("optimum of round t", "The optimum of each recorded round of a world that moves."),
    "deployments": _meaning(
        "deployments", "Samples asked of the world so far, probes and warm-up included.", "samples"
    ),
    "decision": _meaning("decision θ_t", "The decision of round t, before exploration."),
    "multipliers": _meaning("multipliers λ_{t+1}", "The multipliers of the constraints that round t left behind."),
    "failed": _meaning(
        "first round not finite", "The first recorded round whose iterates were not finite; 0 if none.", "rounds"
    ),
    "relative_regret": _meaning("relative regret Reg(t)/(t·Reg(1))", "`regret` divided by its value in round 1."),
    "relative_violation": _meaning(
        "relative violation Vio_m(t)/(t·|Vio_m(1)|)",
        "`violation` of the last active constraint, signed, divided by the largest absolute value that methods have in round 1.",
    ),
    "worst_violation": _meaning(
        "worst violation", "The largest `violation` of all constraints, a signed mean over rounds."
    ),
    "distance": _meaning("distance to the optimum", "Euclidean distance of θ_t from the performative optimum."),
    "stable_distance": _meaning("distance to the stable point", "Euclidean distance of θ_t from the stable point."),
    "seconds": _meaning("running time", "Wall-clock time of the method, compilation included.", "s"),
}
"""The attributes of every variable that a dataset of the library holds."""


def recorded_rounds(rounds: int, record: int | Sequence[int]) -> list[int]:
    """The rounds to record: about `record` of them spaced evenly in log t, or those given; always 1 and T."""
    if not isinstance(record, Sequence | np.ndarray):
        spaced = np.unique(np.geomspace(1, rounds, whole("record", record, 2)).round().astype(int)).tolist()
        return sorted({1, rounds, *spaced})
    chosen = {whole("record", t, 1) for t in record}
    if max(chosen, default=1) > rounds:
        raise ValueError(f"`record` must lie within 1..{rounds}, but got {max(chosen)}")
    return sorted({1, rounds, *chosen})


def to_dataset(cast: Cast, jobs: Sequence[Job], pieces: Sequence[Piece]) -> xr.Dataset:
    """The pieces of the first jobs, one for each, as one dataset, its methods in the order they were given.

    Pieces of an interrupted run hold fewer rounds than their jobs.
    """
    import xarray as xr

    world, labels = jobs[0].worlds[0][0], cast.variants()
    names, rounds = list(world.methods), jobs[0].rounds[: len(pieces[0])]
    realizations = sum(job.asked for job, _ in zip(jobs, pieces, strict=False))
    variables: dict[str, Any] = {}
    for variable in pieces[0][0][names[0]]:
        extra = _DIMENSIONS.get(variable, ())
        values = np.stack(
            [
                np.concatenate([np.stack([at[name][variable] for at in piece]) for piece in pieces], axis=-1)
                for name in names
            ]
        )  # (algorithm, t, ..., variant, realization)
        variables[variable] = (
            ("variant", "algorithm", "realization", "t", *extra),
            np.moveaxis(values, (-2, -1), (0, 2)),
        )
    finite = np.ones(variables["regret"][1].shape, dtype=bool)
    for variable in ("decision", "multipliers"):
        finite &= np.all(np.isfinite(variables[variable][1]), axis=-1)
    failed = np.where(np.all(finite, axis=-1), 0, np.asarray(rounds)[np.argmin(finite, axis=-1)])
    variables["failed"] = (("variant", "algorithm", "realization"), failed)
    variables |= _optima(jobs, realizations, len(rounds))
    coordinates = {
        "algorithm": names,
        "realization": np.arange(realizations),
        "t": rounds,
        "constraint": list(world.truth.problem.constraint_names),
    }
    dataset = xr.Dataset(variables, coordinates).sel({"algorithm": list(cast.methods)})
    dataset = dataset.isel(variant=0) if labels is None else dataset.assign_coords(variant=labels)
    return described(dataset)


def _optima(jobs: Sequence[Job], realizations: int, rounds: int) -> dict[str, Any]:
    """What was measured against, for each variant and realization; nothing if there was nothing."""
    rows = [row for job in jobs for row in job.worlds][:realizations]
    truths = [[world.truth for world in column] for column in zip(*rows, strict=True)]
    places = ("variant", "realization")

    def gathered(part: Callable[[Any], Any]) -> Any:
        return np.asarray([[np.asarray(part(truth)) for truth in row] for row in truths])

    variables: dict[str, Any] = {}
    if all(truth.optimum is not None for row in truths for truth in row):
        variables["optimum"] = ((*places, "coordinate"), gathered(lambda truth: truth.optimum.decision))
        variables["optimum_risk"] = (places, gathered(lambda truth: truth.optimum.risk))
        variables["optimum_residual"] = (places, gathered(lambda truth: truth.optimum.kkt_residual))
        variables["optimum_local"] = (places, gathered(lambda truth: int(truth.local)))
    if all(truth.track is not None for row in truths for truth in row):
        decisions = gathered(lambda truth: truth.track.decisions[:rounds])
        variables["optimal_decision"] = ((*places, "t", "coordinate"), decisions)
    return variables


def described(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset, each of its variables with a `long_name`, its `units` where it has any, and a `description`."""
    for name in dataset.variables:
        dataset[name].attrs |= VARIABLES.get(str(name), {})
    return dataset
