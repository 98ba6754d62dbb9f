"""Two groups of samples that a column of two values marks, such as a label: each may react to decisions in its own way.

With p the share of the second group, A₀ and A₁ the groups' effects and z̄₀ and z̄₁ their means in a deployment, the k numbers of
a datum are lifted to 2k: those of pz̄₁ + (1 − p)z̄₀, which move with the mean effect A = pA₁ + (1 − p)A₀, whatever the shares in
this deployment, and their contrasts z̄₁ − z̄₀, which move with D = A₁ − A₀. The noises of the two are uncorrelated where those of
the groups are alike. A sample of the second group moves with A + (1 − p)D, one of the first with A − pD.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from performative.numerics.pytrees import pytree

FEWEST = 4
"""How many of the first samples must have either value: any two samples have two values."""


@pytree()
class Groups:
    """Which column marks the groups, if any, and what is known of them.

    `marks` (k,) is 1 in that column, and a sample is of the second group if it is above `middle` there; `share` is that of the
    second group. `split` (k,) is 1 for the other columns; 0 everywhere if no column marks groups. `means` (2, k) are those of the
    groups at first, for deployments without one of them.
    """

    marks: Array
    middle: Array
    share: Array
    split: Array
    means: Array

    @staticmethod
    def of(samples: Array) -> Groups:
        """The groups that the first samples (n, k) show: the first column in which they have two values, either several times."""
        low, high = jnp.min(samples, axis=0), jnp.max(samples, axis=0)
        middles = 0.5 * (low + high)
        above = jnp.sum(samples > middles, axis=0)
        two = jnp.all((samples == low) | (samples == high), axis=0)
        two = two & (above >= FEWEST) & (samples.shape[0] - above >= FEWEST)
        marks = two & (jnp.cumsum(two) == 1)
        middle = jnp.sum(jnp.where(marks, middles, 0.0))
        second = jnp.any((samples > middle) & marks, axis=1)
        member = jnp.stack([~second, second]).astype(samples.dtype)
        counts = jnp.sum(member, axis=1)
        return Groups(
            marks=marks.astype(samples.dtype),
            middle=middle,
            share=jnp.where(jnp.any(two), counts[1] / samples.shape[0], 0.5),
            split=(jnp.any(two) & ~marks).astype(samples.dtype),
            means=(member @ samples) / jnp.maximum(counts, 1.0)[:, None],
        )

    def lifted(self, samples: Array) -> Array:
        """The samples (n, k) of a deployment, lifted to (n, 2k): numbers with the means above, and their noise around them."""
        second, p = self._second(samples), self.share
        here = jnp.mean(second)
        one, two = (
            jnp.where(jnp.any(group), jnp.sum(group * samples, axis=0) / jnp.maximum(jnp.sum(group), 1), mean)
            for group, mean in zip((~second, second), self.means, strict=True)
        )
        here = jnp.where((here > 0.0) & (here < 1.0), here, p)
        noise = jnp.where(second, (samples - two) / here, (samples - one) / (1.0 - here))
        mean = p * two + (1.0 - p) * one + jnp.where(second, p, 1.0 - p) * noise
        contrast = two - one + jnp.where(second, noise, -noise)
        return jnp.concatenate([jnp.where(self.split > 0, mean, samples), self.split * contrast], axis=1)

    def weights(self, samples: Array) -> Array:
        """How much each number of samples (n, k) moves with the means and with the contrasts, (n, 2, k)."""
        contrast = self.split * jnp.where(self._second(samples), 1.0 - self.share, -self.share)
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
        return (samples @ self.marks > self.middle)[:, None]
