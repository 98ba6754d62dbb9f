"""Two groups of samples that a column of two values marks, such as a label: each may react to decisions in its own way.

With p the share of the second group, A₀ and A₁ the groups' effects and z̄₀ and z̄₁ their means in a deployment, the k numbers of
a datum are lifted to 2k: the numbers themselves, whose mean moves with the total effect A, and their contrasts z̄₁ − z̄₀, which
move with D = A₁ − A₀. A sample of the second group moves with A + (1 − p)D, one of the first with A − pD, so that the mean of all
moves with A whatever D is.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from performative.numerics.pytrees import pytree

FEWEST = 4
"""How many of the first samples must have each value: any two samples have two values."""


@pytree()
class Groups:
    """Which column marks the groups, if any.

    `marks` (k,) is 1 in that column, where samples of the two groups have the values `low` and `high`, or are nearer to them.
    `split` (k,) is 1 for the other columns; 0 everywhere if no column marks groups.
    """

    marks: Array
    low: Array
    high: Array
    split: Array

    @staticmethod
    def of(samples: Array) -> Groups | None:
        """The groups that the first samples (n, k) show: the first column in which they have two values, each several times.

        None if there are too few samples to tell, or nothing but the column.
        """
        if samples.shape[0] < 2 * FEWEST or samples.shape[1] < 2:
            return None
        low, high = jnp.min(samples, axis=0), jnp.max(samples, axis=0)
        above = jnp.sum(samples > 0.5 * (low + high), axis=0)
        two = jnp.all((samples == low) | (samples == high), axis=0)
        two = two & (above >= FEWEST) & (samples.shape[0] - above >= FEWEST)
        marks = (two & (jnp.cumsum(two) == 1)).astype(samples.dtype)
        return Groups(marks, marks @ low, marks @ high, jnp.where(jnp.any(two), 1.0 - marks, 0.0))

    def lifted(self, samples: Array, expected: Array) -> Array:
        """The samples (n, k) of a deployment with their contrasts, and the noise of these around them: (n, 2k).

        Where a group has fewer than two samples, the contrast is the one that was `expected` (k,), which teaches nothing.
        """
        second, n = self._second(samples), samples.shape[0]
        counts = jnp.stack([n - jnp.sum(second), jnp.sum(second)]).astype(samples.dtype)
        one, two = (
            jnp.sum(group * samples, axis=0) / jnp.maximum(count, 1.0)
            for group, count in zip((~second, second), counts, strict=True)
        )
        # A group's own mean takes one of its samples' freedom.
        scale = n / jnp.sqrt(jnp.maximum(counts * (counts - 1.0), 1.0))
        noise = jnp.where(second, scale[1] * (samples - two), scale[0] * (one - samples))
        p = jnp.clip(jnp.mean(second), 1.0 / (n + 1.0), n / (n + 1.0))
        vague = expected + (samples - jnp.mean(samples, axis=0)) / jnp.sqrt(p * (1.0 - p))
        contrast = jnp.where(jnp.min(counts) >= 2.0, two - one + noise, vague)
        return jnp.concatenate([samples, self.split * contrast], axis=1)

    def weights(self, samples: Array, mean: Array) -> Array:
        """How much each number of samples (n, k) moves with the total effect and with the contrast, (n, 2, k).

        The share of the groups is that of all samples, whose `mean` is (k,).
        """
        apart = jnp.where(self.high > self.low, self.high - self.low, 1.0)
        p = jnp.clip((mean @ self.marks - self.low) / apart, 0.0, 1.0)
        contrast = self.split * jnp.where(self._second(samples), 1.0 - p, -p)
        return jnp.stack([jnp.ones_like(contrast), contrast], axis=1)

    def size(self, data: Array, variances: Array) -> Array:
        """The mean square (2k,) of each number, from the mean and the variances (2k,) of the lifted data; contrasts have the same
        unit.
        """
        k = len(self.split)
        size = data[:k] ** 2 + variances[:k]
        return jnp.concatenate([size, self.split * size])

    def _second(self, samples: Array) -> Array:
        """Whether each sample is of the second group, (n, 1)."""
        return (samples @ self.marks > 0.5 * (self.low + self.high))[:, None]
