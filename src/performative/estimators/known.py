"""What is known of an effect: estimates, how far off they may be, and what one more deployment would teach.

Decisions are measured from the mean of those deployed so far. `noise` is the variance of one sample or, once `scaled`, of the
mean of a deployment.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from performative.numerics import cholesky
from performative.numerics.pytrees import changed, pytree


@pytree()
class Rows:
    """Of a matrix (k, d): the estimates, a covariance (d, d) for each row, the noise (k,) and the `prior` variances (k, d).

    `alike` (k, k) are the correlations of the noise, and `scatter` (d, d) is that of the decisions.
    """

    effect: Array
    covariance: Array
    noise: Array
    prior: Array
    alike: Array
    scatter: Array

    def scaled(self, widths: Array, misfit: Array, samples: int) -> Rows:
        """The same with decisions in units of `widths`, errors widened by a `misfit`, and deployments of so many samples."""
        areas = widths[:, None] * widths
        return Rows(
            effect=self.effect * widths,
            covariance=misfit * self.covariance * areas,
            noise=misfit * self.noise / samples,
            prior=misfit * self.prior * widths**2,
            alike=self.alike,
            scatter=self.scatter / (samples * areas),
        )

    def total(self, slope: Array) -> Array:
        """The covariance (d, d) of the sum of the rows, each times its slope."""
        return jnp.tensordot(slope**2, self.covariance, 1)

    def variance(self, directions: Array) -> Array:
        """Of the sum of the rows, each times its direction (k, d)."""
        left, noise = self._parts(directions)
        return jnp.sum(left) + noise

    def largest_variance(self, directions: Array) -> Array:
        """The same if what the prior left wrong is wrong the same way in all rows: all prices may be taken too lightly."""
        left, noise = self._parts(directions)
        return jnp.sum(jnp.sqrt(left)) ** 2 + noise

    def _parts(self, directions: Array) -> tuple[Array, Array]:
        """The variance of the sum of the rows: what the prior left wrong in each (k,), and what the noise did to all.

        A row's covariance C is C diag(1/v) C, from the prior, and CSC/s, from the noise. What data have in common, such as a good
        day for all products, moves all rows; data that offset each other are not relied upon.
        """
        stretched = (self.covariance @ directions[:, :, None])[:, :, 0]
        known = jnp.where(self.prior > 0, self.prior, 1.0)
        left = jnp.sum(jnp.where(self.prior > 0, stretched**2 / known, 0.0), axis=1)
        alone = jnp.sum(jnp.maximum(jnp.sum(stretched * directions, axis=1) - left, 0.0))
        shares = stretched / jnp.sqrt(self.noise)[:, None]
        pairs = jnp.where(jnp.eye(len(left), dtype=bool), 0.0, self.alike * (shares @ self.scatter @ shares.T))
        return left, alone + jnp.maximum(jnp.sum(pairs), 0.0)

    def errors(self, along: Array) -> Array:
        """The variance of what each row predicts there, (k,)."""
        return jnp.sum((self.covariance @ along) * along, axis=1)

    def teaching(self, slope: Array, root: Array, unroot: Array) -> Callable[[Array], Array]:
        """By how much a deployment somewhere lowers the trace of rrᵀ times `total`, r being the `root` and r⁻¹ the `unroot`.

        Row k teaches ‖rᵀC_k x‖²/(s_k + xᵀC_k x): with rᵀC_k at hand, the latter is r⁻¹x times what the former takes.
        """
        whitened = root.T @ self.covariance

        def taught(along: Array) -> Array:
            stretched = whitened @ along
            # The derivative squares this, which must not vanish for a datum that is always 0.
            noise = jnp.maximum(self.noise + stretched @ (unroot @ along), 1e-140)
            return jnp.sum(slope**2 * jnp.sum(stretched * stretched, axis=1) / noise)

        return taught

    def noisy(self, slope: Array) -> Array:
        """The variance of the noise in the sum of the rows, each times its slope."""
        return jnp.sum(slope**2 * self.noise)

    def ratio(self, along: Array, slope: Array) -> Array:
        """The variance of what is predicted there over the noise, on average."""
        return jnp.sum(slope**2 * ((self.covariance @ along) @ along)) / jnp.maximum(self.noisy(slope), 1e-300)

    def after(self, along: Array) -> Rows:
        """What is known once a deployment there is observed."""
        stretched = self.covariance @ along
        shrunk = stretched[:, :, None] * stretched[:, None, :] / (self.noise + stretched @ along)[:, None, None]
        return changed(self, covariance=self.covariance - shrunk, scatter=self.scatter + along[:, None] * along)

    def variances(self, widths: Array) -> Array:
        """Of the entries (k, d), with decisions in units of `widths`."""
        return jnp.diagonal(self.covariance, axis1=1, axis2=2) * widths**2


@pytree("moved")
class Numbers:
    """Of a structured effect: the matrix (k, d) that the estimates stand for, and the covariance (p, p) of its numbers.

    `moved` are the r rows that the effect can move, `tensor` (r, p, d) makes them of the numbers, and `noise` (r,) is theirs.
    """

    effect: Array
    covariance: Array
    tensor: Array
    noise: Array
    moved: tuple[int, ...]

    def scaled(self, widths: Array, misfit: Array, samples: int) -> Numbers:
        """The same with decisions in units of `widths`, errors widened by a `misfit`, and deployments of so many samples."""
        return Numbers(
            self.effect * widths,
            misfit * self.covariance,
            self.tensor * widths,
            misfit * self.noise / samples,
            self.moved,
        )

    def total(self, slope: Array) -> Array:
        """The covariance (d, d) of the sum of the rows, each times its slope."""
        mixed = self._mixed(slope)
        return mixed.T @ self.covariance @ mixed

    def variance(self, directions: Array) -> Array:
        """Of the sum of the rows, each times its direction (k, d)."""
        weights = jnp.sum(self.tensor * directions[jnp.asarray(self.moved)][:, None, :], axis=(0, 2))
        return weights @ self.covariance @ weights

    def largest_variance(self, directions: Array) -> Array:
        """The same as `variance`: the numbers of a structured effect are taken to be wrong independently of each other."""
        return self.variance(directions)

    def errors(self, along: Array) -> Array:
        """The variance of what each row predicts there, (k,); 0 of those that cannot move."""
        rows = self.tensor @ along
        moved = jnp.sum((rows @ self.covariance) * rows, axis=1)
        return jnp.zeros(self.effect.shape[0]).at[jnp.asarray(self.moved)].set(moved)

    def teaching(self, slope: Array, root: Array, unroot: Array) -> Callable[[Array], Array]:
        """By how much a deployment somewhere lowers the trace of rrᵀ times `total`, r being the `root`."""
        whitened = root.T @ self._mixed(slope).T

        def taught(along: Array) -> Array:
            stretched, inner = self._seen(along)
            across = whitened @ stretched
            return jnp.sum((across.T @ across) * cholesky.inverse(inner))

        return taught

    def noisy(self, slope: Array) -> Array:
        """The variance of the noise in the sum of the rows that move, each times its slope."""
        return jnp.sum(slope[jnp.asarray(self.moved)] ** 2 * self.noise)

    def ratio(self, along: Array, slope: Array) -> Array:
        """The variance of what is predicted there over the noise, on average."""
        _, inner = self._seen(along)
        weights = slope[jnp.asarray(self.moved)] ** 2 * self.noise
        return jnp.sum(weights * (jnp.diag(inner) - 1.0)) / jnp.maximum(self.noisy(slope), 1e-300)

    def after(self, along: Array) -> Numbers:
        """What is known once a deployment there is observed."""
        stretched, inner = self._seen(along)
        return changed(self, covariance=self.covariance - stretched @ cholesky.inverse(inner) @ stretched.T)

    def variances(self, widths: Array) -> Array:
        """Of the entries (k, d), with decisions in units of `widths`; 0 of those that cannot move."""
        moved = jnp.sum((self.covariance @ self.tensor) * self.tensor, axis=1) * widths**2
        return jnp.zeros_like(self.effect).at[jnp.asarray(self.moved)].set(moved)

    def _mixed(self, slope: Array) -> Array:
        """How the sum of the rows, each times its slope, is made of the numbers: (p, d)."""
        return jnp.tensordot(slope[jnp.asarray(self.moved)], self.tensor, 1)

    def _seen(self, along: Array) -> tuple[Array, Array]:
        """Covariances of the numbers with what is predicted there, in units of the noise, and 1 plus those of the latter."""
        rows = (self.tensor @ along) / jnp.sqrt(self.noise)[:, None]
        stretched = self.covariance @ rows.T
        return stretched, jnp.eye(len(self.moved)) + rows @ stretched
