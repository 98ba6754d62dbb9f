"""Where two trees differ in more than their numbers."""

import numpy as np
import pytest
from jax.tree_util import Partial

from performative.numerics.pytrees import as_node, pytree
from performative.numerics.structure import difference


@pytree("count")
class Node:
    inside: object
    count: int = 0


class Plain:
    pass


ONE, OTHER = as_node(Plain()), as_node(Plain())


def one(z):
    return z


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Node(1.0), Node(2.0)),
        (Node(1.0), Node(np.float64(2.0))),
        (Node({"a": np.zeros(3)}), Node({"a": np.ones(3)})),
        (Node(Partial(one, 1.0)), Node(Partial(one, 2.0))),
        (Node(ONE), Node(ONE)),
        (Node(None), Node(None)),
    ],
    ids=["numbers", "types of numbers", "arrays", "functions", "objects", "nothing"],
)
def test_trees_that_differ_only_in_numbers(first, second):
    assert difference(first, second) is None


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (Node(np.zeros(3)), Node(np.zeros(4)), "`inside` has shape (4,) instead of (3,)"),
        (Node(1.0, 2), Node(1.0, 3), "`count` is 3 instead of 2"),
        (Node(Node(1.0, 2)), Node(Node(1.0, 3)), "`inside.count` is 3 instead of 2"),
        (Node([1.0]), Node([1.0, 2.0]), "`inside` has 2 parts instead of 1"),
        (Node({"a": 1.0}), Node({"b": 1.0}), "`inside` has the parts ['b'] instead of ['a']"),
        (Node(None), Node(1.0), "`inside` has type array instead of None"),
        (Node(ONE), Node(OTHER), "`inside` is another object of class Plain"),
        (
            Node(Partial(one)),
            Node(Partial(lambda z: z)),
            "`inside` is another function; pass its numbers as jax.tree_util.Partial(function, numbers)",
        ),
    ],
    ids=["shape", "static", "deep", "length", "names", "type", "object", "function"],
)
def test_the_first_difference_is_named(first, second, found):
    assert difference(first, second) == found
