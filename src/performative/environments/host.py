"""HostWorld: a simulator in plain NumPy or Python, in another process or elsewhere, as a world."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.environments.answers import Signature
from performative.errors import SimulatorFailed
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.tracers import is_traced
from performative.validation import whole

Sampler = Callable[..., Any]


class HostWorld:
    """A world that runs on the host, outside compiled programs: `sample(rng, theta, n)` in NumPy or any Python.

    `sample` gets a `numpy.random.Generator` that is seeded by the realization, the round and the deployment, the decision (d,)
    as an array, and n; it returns the samples (n, k), or (n,) if k = 1. It may also take the round as `t`. All its randomness
    must come from `rng`.

    A simulator with a memory is an object with such a method `sample`, or a class that makes one without arguments. Every run
    (a method, a realization, a variant) gets its own: a new object of the class, or a deep copy. A method `reset(rng)`, if there
    is one, is called before the first round. Runs with a memory cannot be checkpointed.

    Compiled worlds are much faster: each deployment of a host world costs a call from the compiled loop to Python, about
    20 µs, and what the simulator itself takes.

    Args:
        sample: the function, the object or the class.
        width: k; by default as many numbers as the first samples have.

    >>> import numpy as np
    >>> import performative as pf
    >>> world = pf.HostWorld(lambda rng, price, n: rng.poisson(100.0 - 10.0 * price[0], size=n))
    >>> problem = pf.Problem(lambda price, count: -price[0] * count[0], pf.Box([0.0], [9.0]))
    >>> round(pf.performative_risk(problem, world, [5.0], samples=10_000), -1)
    -250.0
    """

    runs_on_host = True

    def __init__(self, sample: Sampler | object, *, width: int | None = None) -> None:
        self._width = None if width is None else whole("width", width, 1)
        self._source = sample
        self._remembers = isinstance(sample, type) or not callable(sample)
        call = getattr(sample, "sample", None) if self._remembers else sample
        if not callable(call):
            raise TypeError(f"`sample` must be a function of (rng, theta, n) or have such a method, but got {sample!r}")
        names = _arguments(call)
        if isinstance(sample, type):
            names = names[1:]  # self
        if len([name for name in names if name != "t"]) != 3:
            raise TypeError(f"`sample` must take (rng, theta, n), and t if it needs the round, but takes {names}")
        self._takes_round = "t" in names
        self.signature = Signature(self._takes_round, self._remembers)
        self._runs: dict[int, _Remembering] = {}
        self._failure: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_runs": {}, "_failure": None}

    @property
    def width(self) -> int | None:
        """k, the length of one sample; None until samples were drawn."""
        return self._width

    def init(self, key: Array) -> tuple[Array, Array]:
        """A new simulator for one run: its number, and how many deployments it has answered."""
        if not self._remembers:
            raise TypeError("a function has no state; pass an object or a class with a method sample(rng, theta, n)")
        number = jax.pure_callback(
            self._begin, jax.ShapeDtypeStruct((), np.uint32), _words(key), vmap_method="broadcast_all"
        )
        return number, jnp.zeros((), np.uint32)

    @in_float64
    def sample(self, key: Array, theta: Array, n: int, t: Array | int = 0, state: Any = None) -> Any:
        """n samples (n, k) at θ; with a memory, also the next state."""
        theta = jnp.asarray(theta, np.float64)
        number, count = (0, 0) if state is None else state
        numbers = [jnp.asarray(number, np.uint32) for number in (t, number, count)]
        if not is_traced(key, theta, numbers):
            samples = jnp.asarray(self._answers(n, *map(np.asarray, (_words(key), theta, *numbers))))
        elif self._width is None:
            raise ValueError("pass `width`, the length k of one sample: it is not known before samples were drawn")
        else:
            # Words of 32 bits: JAX calls back in a thread of its own, where float64 is not enabled.
            words = jax.pure_callback(
                lambda key, theta, *rest: _to_words(
                    self._answers(n, np.asarray(key), _from_words(theta), *map(np.asarray, rest))
                ),
                jax.ShapeDtypeStruct((n, self._width, 2), np.uint32),
                _words(key),
                _split(theta),
                *numbers,
                vmap_method="broadcast_all",
            )
            samples = _joined(words)
        return (samples, (number, count + 1)) if self._remembers else samples

    def raise_failure(self) -> None:
        """Raise the error of the simulator, if one stopped the program that called it."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise SimulatorFailed(f"the simulator failed with {type(failure).__name__}: {failure}") from failure

    def release(self) -> None:
        """Let go of the simulators of runs that have ended."""
        self._runs.clear()

    def _begin(self, words: Any) -> Floats:
        words = np.asarray(words)
        numbers = np.zeros(words.shape[:-1], np.uint32)
        for place in np.ndindex(numbers.shape):
            numbers[place] = self._made(words[place])
        return numbers

    def _made(self, words: Any) -> int:
        number = len(self._runs) + 1
        try:
            simulator: Any = self._source() if isinstance(self._source, type) else copy.deepcopy(self._source)
            if callable(getattr(simulator, "reset", None)):
                simulator.reset(np.random.default_rng(words))
        except BaseException as error:
            self._failure = error
            raise
        self._runs[number] = _Remembering(simulator.sample)
        return number

    def _answers(self, n: int, words: Floats, theta: Floats, t: Floats, number: Floats, count: Floats) -> Floats:
        """The samples of one deployment or, with leading axes on all arrays, of many."""
        many = np.broadcast_shapes(words.shape[:-1], theta.shape[:-1])
        answers = []
        for place in np.ndindex(many):
            try:
                answers.append(self._answer(n, words[place], theta[place], t[place], number[place], count[place]))
            except BaseException as error:
                self._failure = error
                raise
        return np.stack(answers).reshape(*many, *answers[0].shape)

    def _answer(self, n: int, words: Any, theta: Floats, t: Any, number: Any, count: Any) -> Floats:
        call: Any = self._source
        if self._remembers:
            if int(number) not in self._runs:
                raise RuntimeError("the simulator of this run is gone: runs with a memory cannot be resumed")
            call = self._runs[int(number)]
            if call.answered(int(count)):
                return call.last
        extra = {"t": int(t)} if self._takes_round else {}
        rng = np.random.default_rng(words)
        try:
            answered = call(rng, np.array(theta), n, **extra)
        except TypeError as error:
            if "PRNG key" not in str(error) or "Generator" not in str(error):
                raise
            raise TypeError(
                "`sample(rng, theta, n)` of a HostWorld must draw with `rng`, a numpy.random.Generator, but used it as a key of "
                "JAX; write rng.normal(size=(n, k)), or pass an object with sample(key, theta, n) without HostWorld"
            ) from error
        samples = self._checked(answered, n)
        if self._remembers:
            call.remember(int(count), samples)
        return samples

    def _checked(self, samples: Any, n: int) -> Floats:
        try:
            samples = np.asarray(samples, np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"`sample` must return an array of numbers (n, k), but: {error}") from error
        samples = samples[:, None] if samples.ndim == 1 else samples
        width = samples.shape[-1] if self._width is None and samples.ndim == 2 else self._width
        if samples.shape != (n, width):
            raise ValueError(
                f"`sample` must return samples (n, {self._width or 'k'}) with n rows, here n = {n}, but returned "
                f"{samples.shape}; give each sample a row"
            )
        if not np.all(np.isfinite(samples)):
            raise ValueError("`sample` must return finite numbers, but some are not")
        self._width = width
        return samples


class _Remembering:
    """The simulator of one run. A compiled program may repeat a call, and then gets the answer that it got."""

    def __init__(self, sample: Sampler) -> None:
        self.sample, self.count, self.last = sample, -1, np.zeros((0, 0))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.sample(*arguments, **named)

    def answered(self, count: int) -> bool:
        return count == self.count

    def remember(self, count: int, samples: Floats) -> None:
        self.count, self.last = count, samples


def _words(key: Array) -> Array:
    return jax.random.key_data(key)


def _split(numbers: Array) -> Array:
    """Numbers in float64 as two words each, the lower first, inside a program."""
    bits = lax.bitcast_convert_type(numbers, np.uint64)
    return jnp.stack([bits, bits >> np.uint64(32)], axis=-1).astype(np.uint32)


def _joined(words: Array) -> Array:
    low, high = words[..., 0].astype(np.uint64), words[..., 1].astype(np.uint64)
    return lax.bitcast_convert_type(low | (high << np.uint64(32)), np.float64)


def _to_words(numbers: Floats) -> np.ndarray[Any, Any]:
    """The same outside of programs, on a machine of any byte order."""
    return np.ascontiguousarray(numbers).astype("<f8").view("<u4").astype(np.uint32).reshape(*numbers.shape, 2)


def _from_words(words: Any) -> Floats:
    words = np.ascontiguousarray(np.asarray(words)).astype("<u4")
    return words.view("<f8").astype(np.float64).reshape(words.shape[:-1])


def _arguments(call: Any) -> list[str]:
    try:
        return list(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return ["rng", "theta", "n"]
