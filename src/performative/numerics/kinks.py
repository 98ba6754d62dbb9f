"""Averages over N(0, I) of functions with kinks, read off their programs as sums of one-dimensional averages.

A newsvendor's loss, a pinball, a hinge or a Huber loss has kinks where an affine function of the data, a *score*, passes a
level. No fixed set of nodes averages such a loss well: the average becomes piecewise linear in the decision, and its
minimizer a node. But a sum of functions of one score each is averaged score by score, since

    E Σ_j f_j(u_j) = Σ_j ∫ f_j(μ_j + σ_j x) φ(x) dx,        u_j ∼ N(μ_j, σ_j²),

and each integral is split where f_j has a kink or a jump. Products are averaged too if one factor is affine: for a score u
and any affine v, E f(u) v = E f(u) E[v | u], and E[v | u] is affine in u.

The program is run on four kinds of values: constants; affine functions of w; functions of one score per entry, known at
the nodes of that score; and averages, which may only be scaled and added up. It is run on a grid first, which shows where
the differences under `max`, `abs` and comparisons change sign. Newton's method finds the kinks from there, so that the
nodes follow them as the decision moves, and all derivatives are those of the average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend import core

from performative.numerics.arrays import Floats
from performative.numerics.polynomial import CALLS

Ids = np.ndarray[Any, np.dtype[np.int64]]
"""For each entry of an array the score it depends on; NONE if it depends on none."""
NONE = -1
RADIUS = 10.0
"""Scores are averaged over this many standard deviations to either side."""
SLOTS, RANKS = 4, 8
"""The most kinks that one difference may bring, and the most differences of one score that are looked at."""


ORDER, PANELS, CELLS = 10, 32, 256
"""Gauss-Legendre nodes per panel, panels from kink to kink, and cells of the grid on which kinks are looked for."""


class Rule(NamedTuple):
    """Nodes between 0 and 1 and their weights, for the stretch from one kink to the next."""

    nodes: Array | Floats
    weights: Array | Floats

    @staticmethod
    def of(first: float) -> Rule:
        """Gauss-Legendre panels of equal length, but for the `first`, which has that share of it."""
        at, weight = np.polynomial.legendre.leggauss(ORDER)
        ends = np.concatenate([[0.0], first + np.arange(PANELS)]) / (first + PANELS - 1)
        lengths = np.diff(ends)[:, None]
        return Rule((ends[:-1, None] + 0.5 * lengths * (at + 1.0)).ravel(), (0.5 * lengths * weight).ravel())


RULE, TWIN = Rule.of(1.0), Rule.of(0.4)
"""The usual rule, and one with other nodes: their difference shows what neither resolves."""

_MOVES = {"broadcast_in_dim", "concatenate", "dynamic_slice", "expand_dims", "gather", "pad", "reshape", "rev", "slice",
          "squeeze", "transpose", "tile", "stack"}  # fmt: skip
_MIXES = {"reduce_sum", "cumsum", "dot_general"}
_SUMS = {"add", "sub", "add_any"}
_COMPARED = {"max", "min", "gt", "lt", "ge", "le", "eq", "ne"}
_LINEAR = {"neg", "copy", "copy_p", "real", "reduce_precision", "optimization_barrier"}
_ELEMENTWISE = {"abs", "acos", "acosh", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp",
                "convert_element_type", "cos", "cosh", "digamma", "div", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1",
                "floor", "integer_pow", "is_finite", "lgamma", "log", "log1p", "logistic", "mul", "nextafter", "not", "or",
                "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "tan",
                "tanh", "xor"} | _SUMS | _COMPARED | _LINEAR  # fmt: skip


class _Unreadable(Exception):
    """The function is not a sum of functions of one score each."""


class _Affine(NamedTuple):
    """An affine function of w, as `parts` (2 + k, *shape): its value at 0, its coefficients, and its share of its score.

    The score is the affine function from which it was made by adding and multiplying constants.
    """

    parts: Array
    ids: Ids


class _Scored(NamedTuple):
    """A function of one score per entry: its `values` (n, *shape) at the nodes of that score."""

    values: Array
    ids: Ids


class _Averaged(NamedTuple):
    """An expectation: whatever is linear may still be done to it."""

    mean: Array


def mean_by_scores(function: Callable[[Array], Array], width: int, rule: Rule = RULE) -> Array | None:
    """E f(w) over w ∼ N(0, I) in `width` dimensions, or None if f is not a sum of functions of one score each."""
    program = jax.make_jaxpr(function)(jnp.zeros(width))
    try:
        look = _Run(width, _Nodes.grid(0))
        look.average(program)
        columns = {score: column for column, score in enumerate(look.used)}
        return _Run(width, _split(program, look, columns, rule)).average(program)
    except _Unreadable:
        return None


class _Nodes(NamedTuple):
    """Nodes x (n, columns) and weights of the standardized scores; `columns` says which column belongs to a score.

    Without `columns` all scores share one.
    """

    x: Array
    weights: Array
    columns: dict[int, int] | None

    @staticmethod
    def grid(count: int) -> _Nodes:
        x = np.linspace(-RADIUS, RADIUS, count)[:, None]
        return _Nodes(jnp.asarray(x), jnp.asarray(x), None)

    def pick(self, table: Array, ids: Ids) -> Array:
        """The columns (n, *ids.shape) of a table (n, columns) that belong to these scores."""
        if table.shape[1] == 1:
            return table.reshape(-1, *(1 for _ in ids.shape))
        columns = self.columns or {}
        return _taken(table, [columns.get(int(i), 0) for i in ids.flat]).reshape(-1, *ids.shape)


def _split(program: Any, look: _Run, columns: dict[int, int], rule: Rule) -> _Nodes:
    """Gauss-Legendre panels for every score, from kink to kink."""
    size = max(len(columns), 1)
    crossings = _crossings(program, look, columns)
    kinks = [jnp.clip(_taken(jnp.concatenate([root, jnp.full(1, RADIUS)]), places), -RADIUS, RADIUS)
             for root, ids in [(_affine_roots(look), look.straight_ids), *crossings]
             for places in _places(ids, columns)]  # fmt: skip
    for one in range(len(kinks)):  # sorted in all columns at once
        for other in range(one + 1, len(kinks)):
            low, high = jnp.minimum(kinks[one], kinks[other]), jnp.maximum(kinks[one], kinks[other])
            kinks[one], kinks[other] = low, high
    ends = jnp.stack([jnp.full(size, -RADIUS), *kinks, jnp.full(size, RADIUS)])
    within, share = (jnp.asarray(part)[None, :, None] for part in rule)
    length = jnp.diff(ends, axis=0)[:, None]
    x = (ends[:-1, None] + length * within).reshape(-1, size)
    density = jnp.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return _Nodes(x, (length * share).reshape(-1, size) * density, columns)


def _places(ids: Ids, columns: dict[int, int]) -> Ids:
    """For each rank and column the place of a difference of that score among all differences; len(ids) for none."""
    found: list[list[int]] = [[] for _ in columns]
    for place, score in enumerate(ids):
        if score != NONE:
            found[columns[int(score)]].append(place)
    ranks = min(RANKS, max((len(places) for places in found), default=0))
    padded = [(places + [len(ids)] * ranks)[:ranks] for places in found]
    return np.array(padded, dtype=np.int64).reshape(len(columns), ranks).T


def _affine_roots(look: _Run) -> Array:
    """Where the differences that are affine vanish."""
    parts = [jnp.stack([part.reshape(-1) for part in pair]) for _, *pair in look.straight]
    center, slope = jnp.concatenate([*parts, jnp.zeros((2, 0))], axis=1)
    return jnp.where(slope != 0, -center / jnp.where(slope != 0, slope, 1.0), RADIUS)


def _crossings(program: Any, look: _Run, columns: dict[int, int]) -> list[tuple[Array, Ids]]:
    """Where the other differences change sign, at most SLOTS times each; RADIUS where they do not."""
    if not look.bent:
        return []
    fixed = core.ClosedJaxpr(program.jaxpr, [lax.stop_gradient(const) for const in program.consts])
    look = _Run(look.width, _Nodes.grid(CELLS + 1))
    look.average(fixed)
    places = _places(look.bent_ids, columns)
    ranks, size = places.shape
    grid, found = jnp.linspace(-RADIUS, RADIUS, look.nodes.x.shape[0]), look.bent_values()[:, places]
    changes = ((found[1:] >= 0) != (found[:-1] >= 0)) & jnp.isfinite(found[1:]) & jnp.isfinite(found[:-1])
    last = grid.shape[0] - 1
    cell = jnp.sort(jnp.where(changes, jnp.arange(last)[:, None, None], last), axis=0)[:SLOTS]
    there = cell < last
    cell = jnp.minimum(cell, last - 1)
    low, high = grid[cell], grid[cell + 1]
    left, right = (jnp.take_along_axis(found, cell + step, axis=0) for step in (0, 1))
    roots = low + (high - low) * jnp.where(there, left / jnp.where(there, left - right, 1.0), 0.0)

    def differences(program: Any, x: Array) -> Array:
        rows = x.reshape(-1, size)
        run = _Run(look.width, _Nodes(rows, rows, columns))
        run.average(program)
        each = run.bent_values()[:, places].reshape(SLOTS, ranks, ranks, size)
        return jnp.moveaxis(jnp.diagonal(each, axis1=1, axis2=2), 2, 1)

    # The first steps gain digits; from a root, each of the last two makes one more derivative of the root exact.
    for moving in (fixed, fixed, program, program):
        value, slope = jax.jvp(lambda x, moving=moving: differences(moving, x), (roots,), (jnp.ones_like(roots),))
        usable = there & jnp.isfinite(value) & jnp.isfinite(slope) & (slope != 0)
        moved = roots - jnp.where(usable, value, 0.0) / jnp.where(usable, slope, 1.0)
        roots = jnp.where(usable, jnp.clip(moved, low, high), roots)
    scores = np.broadcast_to(np.array(list(columns), dtype=np.int64), (SLOTS, ranks, size))
    return [(jnp.where(there, roots, RADIUS).reshape(-1), scores.reshape(-1))]


class _Run:
    """One reading of a program at given nodes; notes the scores it meets and the differences with a kink at 0."""

    def __init__(self, width: int, nodes: _Nodes) -> None:
        self.nodes, self.width = nodes, width
        self.count = 0
        self.scores: list[tuple[Array, Array]] = []  # coefficients (k, ·) and deviations, block by block
        self.used: dict[int, None] = {}
        self.straight: list[tuple[Ids, Array, Array]] = []
        self.bent: list[tuple[Ids, Array]] = []

    @property
    def straight_ids(self) -> Ids:
        """The scores of all differences that are affine, side by side."""
        return np.concatenate([*(item[0].ravel() for item in self.straight), np.zeros(0, dtype=np.int64)])

    @property
    def bent_ids(self) -> Ids:
        """The scores of all other differences, side by side."""
        return np.concatenate([*(item[0].ravel() for item in self.bent), np.zeros(0, dtype=np.int64)])

    def bent_values(self) -> Array:
        """Those differences at the nodes (n, ·), and a last column that never changes sign."""
        rows = self.nodes.x.shape[0]
        flat = [jnp.asarray(values, dtype=jnp.float64).reshape(rows, -1) for _, values in self.bent]
        return jnp.concatenate([*flat, jnp.ones((rows, 1))], axis=1)

    def average(self, program: Any) -> Array:
        """E f(w) for the program of f."""
        w = self._fresh(jnp.asarray(np.eye(self.width + 2)[:, 1:-1]))
        (result,) = self._read(program.jaxpr, program.consts, [w])
        return self._mean(result)

    def _read(self, jaxpr: Any, consts: list[Any], inputs: list[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def of(atom: Any) -> Any:
            return jnp.asarray(atom.val) if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            outputs = self._apply(equation, [of(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def _apply(self, equation: Any, operands: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if all(_is_constant(operand) for operand in operands):
            return _bind(equation, operands)
        if name in CALLS and CALLS[name] in equation.params:
            inner = equation.params[CALLS[name]]
            return self._read(getattr(inner, "jaxpr", inner), getattr(inner, "consts", []), operands)
        linear = _is_linear(name, equation, operands)
        if linear and all(isinstance(operand, _Affine) or _is_constant(operand) for operand in operands):
            return [self._affine(equation, operands)]
        if linear and (any(isinstance(operand, _Averaged) for operand in operands)):
            return [_Averaged(one) for one in _bind(equation, [self._mean(operand) for operand in operands])]
        if any(isinstance(operand, _Averaged) for operand in operands):
            raise _Unreadable
        alone = self._only_score(operands)
        if name in _ELEMENTWISE:
            ids = _together(operands)
            if ids is not None:
                return [self._each(equation, operands, ids)]
            return [self._of_several_scores(equation, operands)]
        if name in _MOVES and linear:
            return [self._moved(equation, operands)]
        if alone is not None:
            return self._of_one_score(equation, operands, alone)
        if linear:
            return [_Averaged(one) for one in _bind(equation, [self._mean(operand) for operand in operands])]
        if name == "dot_general" and all(isinstance(operand, _Affine) for operand in operands):
            parts = [operand.parts[:-1] for operand in operands]
            products = jax.vmap(lambda *each: _bind(equation, each)[0])(*parts)
            return [_Averaged(jnp.sum(products, axis=0))]
        raise _Unreadable

    def _affine(self, equation: Any, operands: list[Any]) -> _Affine:
        """A linear operation on affine functions, coefficient by coefficient."""
        name = equation.primitive.name
        shape = equation.outvars[0].aval.shape
        if name in _SUMS or name in ("concatenate", "pad", "stack") or name == "select_n":
            first = operands[:1] if name == "select_n" else []
            lifted = [self._as_affine(operand) for operand in operands[len(first) :]]
            parts = jax.vmap(lambda *each: _bind(equation, [*first, *each])[0])(*(item.parts for item in lifted))
        else:
            lifted = [operand for operand in operands if isinstance(operand, _Affine)]
            axes = [0 if isinstance(operand, _Affine) else None for operand in operands]
            arrays = [operand.parts if isinstance(operand, _Affine) else operand for operand in operands]
            parts = jax.vmap(lambda *each: _bind(equation, each)[0], in_axes=axes)(*arrays)
        ids = _moved_ids(equation, operands) if name in _MOVES else None
        if ids is None and name not in _MIXES and name not in _MOVES:
            ids = _together(list(lifted))
        ids = None if ids is None else np.broadcast_to(ids, shape)
        return self._fresh(parts) if ids is None else _Affine(parts, ids)

    def _each(self, equation: Any, operands: list[Any], ids: Ids) -> _Scored:
        """An operation entry by entry, all operands functions of the same scores."""
        shape = equation.outvars[0].aval.shape
        ids = np.broadcast_to(ids, shape)
        values = [self._at_nodes(operand, ids) for operand in operands]
        self._note(equation.primitive.name, operands, values, ids)
        return _Scored(self._vmapped(equation, values, operands)[0], ids)

    def _moved(self, equation: Any, operands: list[Any]) -> _Scored:
        ids = _moved_ids(equation, operands)
        if ids is None:
            raise _Unreadable
        values = [self._at_nodes(operand, getattr(operand, "ids", None)) for operand in operands]
        return _Scored(self._vmapped(equation, values, operands)[0], ids)

    def _of_one_score(self, equation: Any, operands: list[Any], score: int) -> list[Any]:
        """Any operation at all, if everything is a function of one and the same score."""
        values = [self._at_nodes(operand, getattr(operand, "ids", None)) for operand in operands]
        name, params = equation.primitive.name, equation.params
        if name in ("reduce_max", "reduce_min") and len(params["axes"]) == 1 and np.ndim(values[0]) > 1:
            entries = jnp.moveaxis(values[0], params["axes"][0] + 1, 1)
            best = jnp.max if name == "reduce_max" else jnp.min
            for other in range(1, min(entries.shape[1], RANKS)):
                gap = entries[:, other] - best(entries[:, :other], axis=1)
                self.bent.append((np.full(gap.shape[1:], score), gap))
        outputs = self._vmapped(equation, values, operands)
        return [_Scored(values, np.full(values.shape[1:], score)) for values in outputs]

    def _of_several_scores(self, equation: Any, operands: list[Any]) -> Any:
        """An operation entry by entry whose operands are functions of different scores: what can be averaged at once."""
        name = equation.primitive.name
        if name in _SUMS:
            return _Averaged(_bind(equation, [self._mean(operand) for operand in operands])[0])
        affine = all(isinstance(operand, _Affine) or _is_constant(operand) for operand in operands)
        if name in _COMPARED and affine:
            one, other = (self._as_affine(operand) for operand in operands)
            shape = equation.outvars[0].aval.shape
            gap = self._fresh(_spread(one.parts, shape) - _spread(other.parts, shape))
            nothing = jnp.zeros(shape)
            result = self._each(equation, [gap, nothing], gap.ids)
            return _Averaged(self._mean(result) + other.parts[0]) if name in ("max", "min") else result
        if name == "mul":
            # E f(u) v = E f(u) E[v | u] for an affine v.
            one, other = operands
            if not isinstance(other, _Affine):
                one, other = other, one
            if isinstance(other, _Affine):
                return self._given(equation, [one, other], one.ids)
        chosen = name == "select_n" and isinstance(operands[0], _Scored)
        if chosen and all(isinstance(case, _Affine) or _is_constant(case) for case in operands[1:]):
            return self._given(equation, operands, operands[0].ids)
        raise _Unreadable

    def _given(self, equation: Any, operands: list[Any], ids: Ids) -> _Averaged:
        """The average of an operation that is linear in its affine operands, replaced by E[· | score]."""
        ids = np.broadcast_to(ids, equation.outvars[0].aval.shape)
        if np.any(ids == NONE):
            raise _Unreadable
        values = [self._at_nodes(operand, ids) for operand in operands]
        return _Averaged(self._mean(_Scored(self._vmapped(equation, values, operands)[0], ids)))

    def _at_nodes(self, operand: Any, ids: Ids | None) -> Array:
        """The values of an operand at the nodes of the scores `ids`: E[operand | score] if it is affine."""
        if not isinstance(operand, _Affine):
            return operand.values if isinstance(operand, _Scored) else operand
        ids = operand.ids if ids is None or np.ndim(ids) < operand.ids.ndim else ids
        return operand.parts[0] + self._slope(operand, ids) * self.nodes.pick(self.nodes.x, ids)

    def _slope(self, operand: _Affine, ids: Ids) -> Array:
        """How an affine function moves with the standardized scores `ids`, on average."""
        shape = np.broadcast_shapes(ids.shape, operand.ids.shape)
        ids, own = np.broadcast_to(ids, shape), np.broadcast_to(operand.ids, shape)
        self.used.update(dict.fromkeys(int(i) for i in ids.flat if i != NONE))
        if not ids.size:
            return jnp.zeros(shape)
        chosen = [max(int(i), 0) for i in ids.flat]
        deviation = _taken(jnp.concatenate([block[1] for block in self.scores]), chosen).reshape(shape)
        share = operand.parts[-1] * deviation
        if np.all((own == ids) | (own == NONE)):
            return share
        direction = _taken(jnp.concatenate([block[0] for block in self.scores], axis=1), chosen)
        along = jnp.sum(_spread(operand.parts, shape)[1:-1] * direction.reshape(self.width, *shape), axis=0) / deviation
        return jnp.where(own == ids, share, along)

    def _mean(self, value: Any) -> Array:
        if isinstance(value, _Averaged):
            return value.mean
        if isinstance(value, _Affine):
            return value.parts[0]
        if isinstance(value, _Scored):
            return jnp.sum(self.nodes.pick(self.nodes.weights, value.ids) * value.values, axis=0)
        return jnp.asarray(value)

    def _note(self, name: str, operands: list[Any], values: list[Array], ids: Ids) -> None:
        """Note the differences that have a kink or a jump where they change sign."""
        pairs: list[tuple[int, int | None]] = []
        if name in _COMPARED and jnp.issubdtype(jnp.result_type(values[0]), jnp.floating):
            pairs = [(0, 1)]
        elif name in ("abs", "sign"):
            pairs = [(0, None)]
        elif name == "clamp":
            pairs = [(1, 0), (1, 2)]
        for one, other in pairs:
            second = jnp.zeros(()) if other is None else operands[other]
            if not any(isinstance(operand, _Scored) for operand in (operands[one], second)):
                parts = [self._as_affine(operand).parts for operand in (operands[one], second)]
                gap = _Affine(_spread(parts[0], ids.shape) - _spread(parts[1], ids.shape), ids)
                self.straight.append((ids, gap.parts[0], self._slope(gap, ids)))
            else:
                apart = values[one] - (0.0 if other is None else values[other])
                self.bent.append((ids, jnp.broadcast_to(apart, (self.nodes.x.shape[0], *ids.shape))))

    def _vmapped(self, equation: Any, values: list[Array], operands: list[Any]) -> list[Array]:
        axes = [None if _is_constant(operand) else 0 for operand in operands]
        return jax.vmap(lambda *each: _bind(equation, each), in_axes=axes)(*values)

    def _only_score(self, operands: list[Any]) -> int | None:
        scores = {int(i) for operand in operands if not _is_constant(operand) for i in operand.ids.flat}
        scores.discard(NONE)
        return scores.pop() if len(scores) == 1 else None

    def _as_affine(self, operand: Any) -> _Affine:
        if isinstance(operand, _Affine):
            return operand
        constant = jnp.asarray(operand)
        nothing = jnp.zeros((self.width + 1, *constant.shape), constant.dtype)
        return _Affine(jnp.concatenate([constant[None], nothing]), np.full(constant.shape, NONE))

    def _fresh(self, parts: Array) -> _Affine:
        """An affine function that is its own score, entry by entry."""
        shape = parts.shape[1:]
        size = int(np.prod(shape, dtype=int))
        coefficients = parts[1:-1].reshape(self.width, size)
        variance = jnp.sum(coefficients * coefficients, axis=0)
        # A score that does not vary must have derivatives as well: those of √(σ² + a little).
        center, fixed = lax.stop_gradient(parts[0].reshape(size)), lax.stop_gradient(variance)
        little = 1e-8 * (jnp.abs(center) + jnp.sqrt(fixed)) + 1e-9
        self.scores.append((coefficients, jnp.sqrt(variance + little * little)))
        self.count += size
        ids = np.arange(self.count - size, self.count).reshape(shape)
        return _Affine(jnp.concatenate([parts[:-1], jnp.ones((1, *shape))]), ids)


def _taken(array: Array, places: Sequence[int] | Ids) -> Array:
    """These places of the last axis; a slice where they lie side by side, since gathers are slow to compile."""
    first, count = int(places[0]), len(places)
    if all(int(place) == first + step for step, place in enumerate(places)):
        return array if count == array.shape[-1] else array[..., first : first + count]
    return array[..., np.asarray(places, dtype=np.int64)]


def _spread(parts: Array, shape: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(parts.reshape(parts.shape[0], *(1,) * (len(shape) - parts.ndim + 1), *parts.shape[1:]),
                            (parts.shape[0], *shape))  # fmt: skip


def _is_constant(value: Any) -> bool:
    return not isinstance(value, _Affine | _Scored | _Averaged)


def _is_linear(name: str, equation: Any, operands: list[Any]) -> bool:
    """Whether the operation is linear in those operands that are no constants."""
    constant = [_is_constant(operand) for operand in operands]
    if name in _SUMS or name in _LINEAR or name in ("reduce_sum", "cumsum", "concatenate", "pad", "stack"):
        return True
    if name in ("mul", "dot_general"):
        return any(constant)
    if name == "div":
        return constant[1]
    if name == "convert_element_type":
        return bool(np.issubdtype(equation.params["new_dtype"], np.floating)) and not (
            isinstance(operands[0], _Scored) and operands[0].values.dtype == bool
        )
    if name in ("gather", "dynamic_slice"):
        return all(constant[1:])
    if name == "select_n":
        return constant[0]
    return name in _MOVES


def _together(operands: list[Any]) -> Ids | None:
    """The scores of an operation entry by entry, or None if some entry would depend on two."""
    ids = [operand.ids for operand in operands if not _is_constant(operand)]
    shape = np.broadcast_shapes(*(one.shape for one in ids))
    joint = np.full(shape, NONE)
    for one in (np.broadcast_to(one, shape) for one in ids):
        if np.any((joint != NONE) & (one != NONE) & (joint != one)):
            return None
        joint = np.where(joint == NONE, one, joint)
    return joint


def _moved_ids(equation: Any, operands: list[Any]) -> Ids | None:
    """The scores after an operation that only moves entries; None if where to is not known yet."""
    try:
        with jax.ensure_compile_time_eval():
            moved = [
                jnp.zeros(np.shape(operand), jnp.int64)
                if _is_constant(operand) and jnp.issubdtype(jnp.result_type(operand), jnp.floating)
                else jnp.asarray(np.asarray(operand) if _is_constant(operand) else operand.ids + 1)
                for operand in operands
            ]
            return np.asarray(_bind(equation, moved)[0]) - 1
    except jax.errors.TracerArrayConversionError:
        return None


def _bind(equation: Any, operands: Any) -> list[Array]:
    """The operation itself, with its own rules for derivatives."""
    params = equation.primitive.get_bind_params(equation.params)
    functions, params = params if isinstance(params, tuple) else ((), params)
    result = equation.primitive.bind(*functions, *operands, **params)
    return list(result) if equation.primitive.multiple_results else [result]
