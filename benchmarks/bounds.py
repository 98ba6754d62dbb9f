"""`python -m benchmarks.bounds`: the regret of Safe APDA beside the bounds of `performative.theory.safe`.

Theorems 1 and 2 are about two idealized rules, which run beside it: probes at a fixed pace, and probes that are worth
their price. A second table shows what a long history at the start is worth, a third what Theorem 3 leaves to be
counted along runs. ℓ = −zᵀθ + ‖θ‖² on a box, one sample a deployment.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

import performative as pf
from benchmarks.starving import loss
from performative import theory
from performative.methods.pace import ALLOWED
from performative.methods.safe_primal_dual import SafePrimalDual, SafeState
from performative.numerics.precision import precise

Floats = NDArray[np.float64]
REALIZATIONS = 20
RIDGE = 1.0
HISTORY = 100_000
"""How many samples at the start a long history holds."""


class World(NamedTuple):
    """Z = mean + effect x + N(0, deviation² I) on the box [0, upper]^d."""

    mean: Floats
    effect: Floats
    deviation: float
    upper: float
    start: Floats

    @property
    def d(self) -> int:
        return len(self.mean)

    @property
    def center(self) -> Floats:
        return np.full(self.d, self.upper / 2)

    @property
    def radius(self) -> float:
        return self.upper / 2

    @property
    def omega(self) -> Floats:
        """Ω = (m + Aa, rA)."""
        return np.column_stack([self.mean + self.effect @ self.center, self.radius * self.effect])

    def features(self, x: Floats) -> Floats:
        """ξ(x) = (1, (x − a)/r)."""
        return np.concatenate([np.ones((*x.shape[:-1], 1)), (x - self.center) / self.radius], axis=-1)

    def risk(self, omega: Floats, x: Floats) -> Floats:
        """The risk of decisions (..., d) in worlds Ω (..., d, d + 1)."""
        answer = np.einsum("...kj,...j->...k", omega, self.features(x))
        return np.sum(x * x - x * answer, axis=-1)

    def gradient(self, omega: Floats, x: Floats) -> Floats:
        answer = np.einsum("...kj,...j->...k", omega, self.features(x))
        return 2 * x - answer - np.einsum("...kj,...k->...j", omega[..., 1:], x) / self.radius

    def minimizer(self, omega: Floats) -> Floats:
        """The minimizers (n, d) of the risks of worlds Ω (n, d, d + 1) over the box, exactly: the best of all faces."""
        effect = omega[:, :, 1:] / self.radius
        hessian = 2 * np.eye(self.d) - effect - effect.transpose(0, 2, 1)
        slope = omega[:, :, 0] - effect @ self.center
        best, least = np.zeros((len(omega), self.d)), np.full(len(omega), np.inf)
        for face in itertools.product((0.0, self.upper, None), repeat=self.d):
            free = [j for j, value in enumerate(face) if value is None]
            x = np.tile([0.0 if value is None else value for value in face], (len(omega), 1))
            if free:
                rest = (slope - np.einsum("njk,nk->nj", hessian, x))[:, free]
                x[:, free] = np.linalg.solve(hessian[np.ix_(range(len(omega)), free, free)], rest[..., None])[..., 0]
            risk = np.where(np.all((x >= 0) & (x <= self.upper), axis=1), self.risk(omega, x), np.inf)
            best, least = np.where((risk < least)[:, None], x, best), np.minimum(risk, least)
        return best

    @property
    def corners(self) -> Floats:
        return np.asarray(list(itertools.product((0.0, self.upper), repeat=self.d)))

    def constants(self) -> dict[str, float]:
        """The constants of Theorem 2; what is convex in θ is largest at a corner."""
        least = self.risk(self.omega, self.minimizer(self.omega[None])[0])
        return {
            "gain": self.gain,
            "convexity": float(np.linalg.eigvalsh(2 * np.eye(self.d) - self.effect - self.effect.T)[0]),
            "risk_range": float(np.max(self.risk(self.omega, self.corners)) - least),
            "trace": self.d * self.deviation**2,
            "dimension": self.d,
        }

    @property
    def gain(self) -> float:
        """K = sup ‖ξ(θ)‖ + ‖θ‖/r."""
        ends = self.corners
        reach = np.linalg.norm(self.features(ends), axis=1)
        return float(np.max(reach + np.linalg.norm(ends, axis=1) / self.radius))

    def constants_of_belief(self) -> dict[str, float]:
        """The constants of Theorem 1, of C = {Ω: A + Aᵀ ⪯ 0, ‖Ω‖ ≤ that of this world}, which contains Ω₀ = 0."""
        size = float(np.linalg.norm(self.omega))
        reach = float(np.max(np.linalg.norm(self.features(self.corners), axis=1)))
        own = float(np.max(np.sum(self.corners**2, axis=1)))
        widest = own + 2 * size * reach * float(np.max(np.linalg.norm(self.corners, axis=1)))
        return {**self.constants(), "convexity": 2.0, "risk_range": widest, "ridge": RIDGE}

    def believed(self, omega: Floats) -> Floats:
        """Ω̂ moved into C, no farther from any point of C: the symmetric part of the effect, then the norm."""
        effect = omega[:, :, 1:]
        values, vectors = np.linalg.eigh((effect + effect.transpose(0, 2, 1)) / 2)
        excess = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
        clipped = np.concatenate([omega[:, :, :1], effect - excess], axis=2)
        norm = np.linalg.norm(clipped, axis=(1, 2), keepdims=True)
        return clipped * np.minimum(1.0, np.linalg.norm(self.omega) / np.maximum(norm, 1e-300))


WORLDS = {
    "a bound believed by mistake": World(np.array([2.0, 9.0]), np.diag([-1.0, -6.0]), 5.0, 1.0, np.array([0.5, 1.0])),
    "inside, two dimensions": World(
        np.array([2.0, 2.0]), np.array([[-1.0, 0.3], [0.2, -1.0]]), 1.0, 1.0, np.array([0.2, 0.2])
    ),
    "inside, one dimension": World(np.array([3.0]), np.array([[-2.0]]), 1.0, 1.0, np.array([0.8])),
}


def forced(world: World, rounds: int, realizations: int, seed: int) -> Floats:
    """The rule of Theorem 2 at its best pace: regret summed over rounds (realizations, rounds)."""
    random, d = np.random.default_rng(seed), world.d
    pace = theory.forced_probes_pace(**world.constants())
    arms = world.center + world.radius * np.concatenate([np.eye(d), -np.eye(d)])
    truth = world.omega
    least = world.risk(truth, world.minimizer(truth[None])[0])
    prices = world.risk(truth, arms) - least
    regret, sums = np.zeros((realizations, rounds)), np.zeros((realizations, d, d + 1))
    cycles, here, step = 0, np.zeros(realizations), 2 * d
    for t in range(1, rounds + 1):
        if step == 2 * d and 2 * d * cycles < pace * np.sqrt(t):
            step = 0
        if step == 2 * d:
            regret[:, t - 1] = here
            continue
        answers = truth @ world.features(arms[step]) + world.deviation * random.normal(size=(realizations, d))
        sums += answers[:, :, None] * world.features(arms[step])
        regret[:, t - 1], step = prices[step], step + 1
        if step == 2 * d:
            cycles += 1
            estimate = sums / (cycles * np.array([2 * d, *[2] * d]))
            here = world.risk(truth, world.minimizer(estimate)) - least
    return np.cumsum(regret, axis=1)


class Priced(NamedTuple):
    """A run of the rule of Theorem 1, every number (realizations, rounds)."""

    regret: Floats
    price: Floats
    error: Floats
    ignorance: Floats


def priced(world: World, rounds: int, realizations: int, seed: int) -> Priced:
    """The rule of Theorem 1: what each deployment loses, its predicted price, ē_t = K‖Ω̄_t − Ω‖, and Φ_t."""
    random, d = np.random.default_rng(seed), world.d
    constants, truth = world.constants_of_belief(), world.omega
    weight = constants["gain"] ** 2 * constants["trace"] / (2 * constants["convexity"])
    least = world.risk(truth, world.minimizer(truth[None])[0])
    sums, inverse = np.zeros((realizations, d, d + 1)), np.tile(np.eye(d + 1) / RIDGE, (realizations, 1, 1))
    run = Priced(*np.zeros((4, realizations, rounds)))
    each = np.arange(realizations)
    for t in range(1, rounds + 1):
        belief = world.believed(sums @ inverse)
        theta = world.minimizer(belief)
        along = np.linalg.eigh(inverse)[1][:, 1:, -1]
        along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
        wide = [np.clip(world.center + sign * world.radius * along, 0.0, world.upper) for sign in (1.0, -1.0)]
        tried = [theta, *wide, *(theta + 0.3 * (end - theta) for end in wide)]
        x = np.stack(tried, axis=1)
        moved = np.einsum("nij,ncj->nci", inverse, world.features(x))
        taught = weight * np.sum(moved**2, axis=2) / (1 + np.sum(moved * world.features(x), axis=2))
        price = world.risk(belief[:, None], x) - world.risk(belief, theta)[:, None]
        best = np.argmax(t * taught - price, axis=1)
        chosen, xi, moved = x[each, best], world.features(x)[each, best], moved[each, best]
        run.regret[:, t - 1] = world.risk(truth, chosen) - least
        run.price[:, t - 1] = price[each, best]
        run.error[:, t - 1] = constants["gain"] * np.linalg.norm(belief - truth, axis=(1, 2))
        run.ignorance[:, t - 1] = weight * np.trace(inverse, axis1=1, axis2=2)
        answers = xi @ truth.T + world.deviation * random.normal(size=(realizations, d))
        sums += answers[:, :, None] * xi[:, None, :]
        scale = 1 + np.sum(moved * xi, axis=1)
        inverse = inverse - moved[:, :, None] * moved[:, None, :] / scale[:, None, None]
    return run


def safe(world: World, rounds: int, realizations: int, marks: list[int], **options: Any) -> list[float]:
    """The mean regret of `safe_apda`, summed over the deployments up to each mark."""
    problem = pf.Problem(loss, pf.Box(np.zeros(world.d), np.full(world.d, world.upper)))
    base = pf.Gaussian(world.mean, world.deviation**2 * np.eye(world.d))
    method = pf.safe_apda(problem, start=world.start, **options)
    runs = pf.simulate(
        {"safe": method},
        pf.LocationFamily(base, effect=world.effect),
        rounds=rounds,
        realizations=realizations,
        seed=0,
        record=marks,
    )
    mean = runs.isel(algorithm=0)["deployed_regret"].mean("realization")
    return [float(mean.sel(t=mark)) * mark for mark in marks]


class Counted(NamedTuple):
    """Along runs, summed over rounds since the first, (realizations, rounds): what Theorem 3 leaves to be counted.

    `residual` is the squared distance of −∇R̂(θ_t) from the normal cone of the box, `error` is ‖∇R̂(θ_t) − ∇PR(θ_t)‖², `due` and
    `held` are rounds for which a wide probe is due, and held back. `left` is √t tr(S_t + rI)⁻¹ and `used` the share of the
    allowance that is used, neither of them summed.
    """

    residual: Floats
    error: Floats
    due: Floats
    held: Floats
    left: Floats
    used: Floats


def counted(world: World, rounds: int, realizations: int, **options: Any) -> Counted:
    """`safe_apda` in a world, with θ_t where it is not the start."""
    problem = pf.Problem(loss, pf.Box(np.zeros(world.d), np.full(world.d, world.upper)))
    method = pf.safe_apda(problem, start=world.start, **options)
    nature = pf.LocationFamily(pf.Gaussian(world.mean, world.deviation**2 * np.eye(world.d)), effect=world.effect)

    def told(state: SafeState, key: Array) -> SafeState:
        x = SafePrimalDual._decide(method, state)
        after = method.learn(state, x, nature.sample(key, x[0], 1)[None])
        return SafePrimalDual._planned(method, after, state.round)

    def observed(state: SafeState) -> Counted:
        theta, belief, reasons = state.decision, state.belief, state.reasons
        down = -jax.grad(lambda x: method.predicted_risk(belief, belief.effect, x))(theta)
        high, low = theta >= world.upper * (1 - 1e-9), theta <= 1e-9 * world.upper
        free = jnp.where(high, jnp.minimum(down, 0.0), jnp.where(low, jnp.maximum(down, 0.0), down))
        true = 2 * theta - (world.mean + world.effect @ theta) - world.effect.T @ theta
        away = jnp.any(theta != jnp.asarray(world.start))
        scatter = belief.moments.scatter / (state.prior.widths[:, None] * state.prior.widths)
        t, relative = state.round.astype(float), state.prior.relative(belief, 1)
        unit = state.prior.bend + state.ledger.unit
        return Counted(
            residual=jnp.where(away, jnp.sum(free**2), 0.0),
            error=jnp.where(away, jnp.sum((down + true) ** 2), 0.0),
            due=reasons.due.astype(float),
            held=(reasons.due & reasons.held).astype(float),
            left=jnp.sqrt(t) * jnp.trace(jnp.linalg.inv(scatter + relative * jnp.eye(world.d))),
            used=state.explored / (ALLOWED * unit * jnp.sqrt(t)),
        )

    def run(key: Array) -> Counted:
        first, key = jax.random.split(key)

        def step(state: SafeState, key: Array) -> tuple[SafeState, Counted]:
            after = told(state, key)
            return after, observed(after)

        state = told(method.init(first), key)
        return jax.lax.scan(step, state, jax.random.split(key, rounds - 1))[1]

    with precise():
        each = jax.jit(lambda keys: jax.lax.map(run, keys))(jax.random.split(jax.random.key(0), realizations))
        sums = Counted(*(np.cumsum(np.asarray(part), axis=1) for part in each))
        return sums._replace(left=np.asarray(each.left), used=np.asarray(each.used))


def at_start(world: World) -> tuple[Floats, Floats]:
    """A long history at the start."""
    noise = world.deviation * np.random.default_rng(0).normal(size=(HISTORY, world.d))
    return np.tile(world.start, (HISTORY, 1)), world.mean + world.effect @ world.start + noise


def exponent(regrets: list[float], marks: list[int]) -> float:
    """The slope of log regret against log T over all marks."""
    return float(np.polyfit(np.log(marks), np.log(regrets), 1)[0])


def bounds_of(world: World) -> dict[str, Callable[[int], float]]:
    """The bounds at T, by name."""
    own, belief = world.constants(), world.constants_of_belief()
    reach = float(np.max(np.linalg.norm(world.features(world.corners), axis=1)))
    apart = {"distance": float(np.linalg.norm(world.omega)), "reach": reach}
    return {
        "Theorem 2": lambda rounds: theory.forced_probes_regret(rounds, **own),
        "Theorem 1, average over the prior": lambda rounds: theory.priced_probes_regret(rounds, **belief),
        "Theorem 1, every world in C": lambda rounds: theory.priced_probes_regret(rounds, **belief, **apart),
    }


def says_something(bound: Callable[[int], float], worst: float) -> str:
    """From which power of 10 to one digit the bound is below the worst decision every time."""
    for rounds in (round(10 ** (tenth / 10)) for tenth in range(10, 61)):
        if bound(rounds) < worst * rounds:
            return f"from 10^{np.log10(rounds):.1f}"
    return "after 10^6"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--deployments", type=int, default=10_000)
    parser.add_argument("--realizations", type=int, default=REALIZATIONS)
    arguments = parser.parse_args()
    rounds, many = arguments.deployments, arguments.realizations
    marks = [count for count in (100, 1_000, 10_000, 100_000, 1_000_000) if count <= rounds]

    def head(*titles: str) -> None:
        print(f"\n| {titles[0]} | {' | '.join(f'{count:,}' for count in marks)} | {titles[1]} |")
        print("|---|" + "---|" * (len(marks) + 1))

    def show(name: str, regrets: list[float], last: str | None = None) -> None:
        cells = " | ".join(f"{regret:,.4g}" if regret < 1e4 else f"{regret:,.0f}" for regret in regrets)
        print(f"| {name} | {cells} | {last or format(exponent(regrets, marks), '.2f')} |", flush=True)

    for name, world in WORLDS.items():
        head(name, "exponent")
        show("`safe_apda`", safe(world, rounds, many, marks))
        show("`safe_apda`, no budget", safe(world, rounds, many, marks, loss_budget=None))
        mean = np.cumsum(priced(world, rounds, many, 0).regret, axis=1).mean(axis=0)
        show("Rule 1", [float(mean[mark - 1]) for mark in marks])
        mean = forced(world, rounds, many, 0).mean(axis=0)
        show("Rule 2", [float(mean[mark - 1]) for mark in marks])
        worst = world.constants()["risk_range"]
        for label, bound in bounds_of(world).items():
            show(label, [bound(mark) for mark in marks], says_something(bound, worst))
        show("the worst decision every time", [worst * mark for mark in marks])

    head("`safe_apda`, no budget", "exponent")
    for name in ("inside, one dimension", "inside, two dimensions"):
        world = WORLDS[name]
        show(f"{name}: no history", safe(world, rounds, many, marks, loss_budget=None))
        past = at_start(world)
        show(f"{HISTORY:,} samples at the start", safe(world, rounds, many, marks, loss_budget=None, history=past))

    ends = [mark for mark in marks if mark >= 1_000] or [rounds]
    print("\n| counted until " + " / ".join(f"{mark:,}" for mark in ends), end=" | ")
    print("Σρ² | Σ‖e‖² | due | held | largest √t tr(S + rI)⁻¹ | allowance used |\n" + "|---" * 7 + "|")
    for name, world in WORLDS.items():
        for label, budget in (("", 1.0), (", no budget", None)):
            runs = counted(world, rounds, min(many, 5), loss_budget=budget)
            sums = (" / ".join(f"{part[:, mark - 2].mean():,.0f}" for mark in ends) for part in runs[:4])
            last = f"{runs.left[:, 256:].max():.0f} | {runs.used.max():.0%}"
            print(f"| {name}{label} | {' | '.join(sums)} | {last} |", flush=True)


if __name__ == "__main__":
    main()
