"""Nodes of the graph from Python: what they lead to, and hooks on them."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest
from layouts import needs_torch

import kael


@pytest.fixture
def x():
    return kael.tensor([1.0, 2.0], requires_grad=True)


def test_a_node_leads_to_those_of_its_operands(x):
    y = kael.tensor([5.0, 7.0], requires_grad=True)
    product = x * y
    node = product.grad_fn
    assert node.name() == "MulBackward"
    assert repr(node) == "<kael.Node MulBackward>"
    (first, zero), (second, _) = node.next_functions
    assert (first.name(), second.name(), zero) == ("AccumulateGrad", "AccumulateGrad", 0)
    assert first != second
    assert first.next_functions == ()
    assert x.grad_fn is None
    assert (x * 2.0).grad_fn.next_functions[0][0] == first
    assert (x * kael.ones(2)).grad_fn.next_functions == ((first, 0), (None, 0))
    assert len({node, product.grad_fn}) == 1
    assert node != "MulBackward"


def test_a_node_has_no_constructor_and_no_copy(x):
    with pytest.raises(TypeError, match="no constructor"):
        kael.Node()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"kael\.Node cannot be copied"):
            duplicate((x * x).grad_fn)


def test_a_hook_sees_what_a_node_returned_and_what_it_took(x):
    seen = []
    y = x * kael.tensor([[3.0, 3.0], [4.0, 4.0]])  # broadcast: the hook sees the gradient of x itself
    handle = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    y.sum().backward(retain_graph=True)
    (((gradient, nothing), (taken,)),) = seen
    assert gradient.tolist() == [7.0, 7.0]
    assert nothing is None
    assert taken.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    handle.remove()
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1


def test_hooks_replace_gradients_in_the_order_in_which_they_came(x):
    y = x * 2.0
    y.grad_fn.register_prehook(lambda taken: taken[0] * 10.0)
    y.grad_fn.register_prehook(lambda taken: (taken[0] + 1.0,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 100.0,))
    y.grad_fn.register_hook(lambda inputs, outputs: [inputs[0] + 5.0])
    y.sum().backward()
    assert x.grad.tolist() == [2205.0, 2205.0]  # ((1 * 10 + 1) * 2) * 100 + 5


def test_a_hook_may_take_a_gradient_away(x):
    y = x * 2.0
    y.grad_fn.register_hook(lambda inputs, outputs: (None,))
    (y.sum() + x.sum()).backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_node_at_the_end_of_a_path_takes_hooks(x):
    y = x * 2.0
    seen = []
    ((leaf, _),) = y.grad_fn.next_functions
    leaf.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].tolist(), x.grad.tolist())))
    leaf.register_prehook(lambda taken: taken[0] * 3.0)
    y.sum().backward()
    assert seen == [((), [6.0, 6.0], [6.0, 6.0])]


def test_what_a_hook_raises_is_raised_by_backward(x):
    failure = ValueError("mine")

    def fail(*_):
        raise failure

    y = x * 2.0
    for register in (y.grad_fn.register_hook, y.grad_fn.register_prehook):
        handle = register(fail)
        with pytest.raises(ValueError, match="mine") as caught:
            y.sum().backward(retain_graph=True)
        assert caught.value is failure
        handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((), TypeError, "a hook on a node of 1 operands must return as many gradients"),
        (3, TypeError, "a hook on a node of 1 operands must return as many gradients"),
        ((3,), TypeError, r"gradient 0 must be a kael\.Tensor or None, not int"),
        (
            (kael.zeros(3),),
            kael.Error,
            r"a hook on MulBackward answered with gradient 0 of shape \[3\] and dtype float32, expected",
        ),
        (
            (kael.zeros(2, dtype="float64"),),
            kael.Error,
            r"of shape \[2\] and dtype float64, expected \[2\] and float32",
        ),
    ],
)
def test_a_hook_that_answers_something_else_is_an_error(x, answer, error, message):
    y = x * 2.0
    y.grad_fn.register_hook(lambda inputs, outputs: answer)
    with pytest.raises(error, match=message):
        y.sum().backward()


def test_a_prehook_that_answers_something_else_is_an_error(x):
    y = x * 2.0
    y.grad_fn.register_prehook(lambda taken: (taken[0], taken[0]))
    with pytest.raises(TypeError, match="a prehook must return one gradient, not 2"):
        y.sum().backward()
    for register in (y.grad_fn.register_hook, y.grad_fn.register_prehook):
        with pytest.raises(TypeError, match="hook must be callable, not int"):
            register(3)


def test_a_hook_may_remove_itself_and_add_others(x):
    y = x * 2.0
    node, calls = y.grad_fn, []

    def hook(inputs, outputs):
        calls.append("first")
        handle.remove()
        node.register_hook(lambda inputs, outputs: calls.append("second"))

    handle = node.register_hook(hook)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert calls == ["first", "second"]


def test_a_node_outlives_the_tensors_of_its_graph(x):
    node = (x * x).exp().grad_fn
    del x
    gc.collect()
    ((product, _),) = node.next_functions
    assert product.name() == "MulBackward"
    assert [following.name() for following, _ in product.next_functions] == ["AccumulateGrad"] * 2


def test_a_walked_graph_still_has_its_nodes(x):
    y = (x * x).sum()
    node = y.grad_fn
    y.backward()
    assert node.next_functions[0][0].name() == "MulBackward"


def test_a_hook_is_let_go_with_its_node(x):
    class Hook:
        def __call__(self, inputs, outputs):
            return None

    hook = Hook()
    gone = weakref.ref(hook)
    y = x * 2.0
    y.grad_fn.register_hook(hook)
    del hook
    assert gone() is not None
    del y
    assert gone() is None


def test_nodes_of_a_long_graph_are_dropped_in_another_thread(x):
    y = x
    for _ in range(20_000):
        y = -y
    nodes = [y.grad_fn]
    del y
    nodes[0].register_hook(lambda inputs, outputs: None)
    thread = threading.Thread(target=nodes.clear)
    thread.start()
    thread.join()
    assert not nodes


def test_names_and_edges_are_those_of_the_graph(x):
    loss = ((x * x + x) @ x).sum()
    numbers, listed, edges = {}, [], []

    def number_of(node):
        if node not in numbers:
            numbers[node] = len(numbers)
            listed.append(node.name())
            pending.append(node)
        return numbers[node]

    pending = []
    number_of(loss.grad_fn)
    while pending:
        node = pending.pop()
        edges += [(numbers[node], number_of(following)) for following, _ in node.next_functions if following]
    graph = kael.autograd_graph(loss, format="dict")
    assert listed == [node["name"] for node in graph["nodes"]]
    assert edges == [(edge["from"], edge["to"]) for edge in graph["edges"]]


@needs_torch
def test_hooks_see_what_those_of_torch_see():
    import torch

    def run(library):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 3.0).exp()
        seen = []
        y.grad_fn.register_prehook(lambda taken: (taken[0] * 2.0,))
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append([t.tolist() for t in inputs + outputs]))
        y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 0.5,))
        y.sum().backward()
        return [*seen[0], x.grad.tolist()]

    for ours, theirs in zip(run(kael), run(torch), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
