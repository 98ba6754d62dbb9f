"""Tails of Fisher's F and Student's t, in plain Python: importing SciPy for them takes longer than a status may.

Both are I_x(a, b), the regularized incomplete beta function, by the continued fraction 26.5.8 of Abramowitz and Stegun (1964) as
Lentz evaluates it. Its length grows like the root of the degrees of freedom; the error is that of `math.lgamma`.
"""

from __future__ import annotations

import math

_TINY, _CLOSE = 1e-300, 4e-16


def beyond_f(between: float, within: float, ratio: float) -> float:
    """P(F > ratio) for F with `between` and `within` degrees of freedom.

    >>> round(beyond_f(2.0, 10.0, 4.102821), 6)
    0.05
    """
    if not ratio > 0.0:
        return 1.0 if ratio <= 0.0 else math.nan
    share = within / (within + between * ratio)
    return _beta(0.5 * within, 0.5 * between, share, between / (within / ratio + between))


def t_quantile(freedom: float, tail: float = 0.025) -> float:
    """The t with P(T > t) = tail < ½, by Newton's method from the left, where P is convex.

    >>> round(t_quantile(1.0), 4), round(t_quantile(1e6), 4)
    (12.7062, 1.96)
    """
    size = math.lgamma(0.5 * (freedom + 1.0)) - math.lgamma(0.5 * freedom) - 0.5 * math.log(math.pi * freedom)
    t = 0.0
    while True:
        excess = 0.5 * beyond_f(1.0, freedom, t * t) - tail
        further = t + excess * math.exp(0.5 * (freedom + 1.0) * math.log1p(t * t / freedom) - size)
        if not further > t * (1.0 + 1e-14):
            return t
        t = further


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b), where `rest` is 1 − x."""
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta(b, a, rest, x)
    if x <= 0.0:
        return 0.0
    size = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(size) * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b), without what stands before it."""
    upper, lower = 1.0, _away(1.0 - (a + b) * x / (a + 1.0))
    value = lower = 1.0 / lower
    step, change = 0, 0.0
    while abs(change - 1.0) > _CLOSE:
        step += 1
        even = step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0))
        lower, upper = 1.0 / _away(1.0 + even * lower), _away(1.0 + even / upper)
        value *= lower * upper
        lower, upper = 1.0 / _away(1.0 + odd * lower), _away(1.0 + odd / upper)
        change = lower * upper
        value *= change
    return value


def _away(number: float) -> float:
    """The number, kept away from 0."""
    return number if abs(number) > _TINY else _TINY
