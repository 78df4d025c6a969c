"""Gradients from Python: what is recorded, where gradients add up, what is refused."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import kael


@pytest.fixture
def x():
    return kael.tensor([1.0, 2.0], requires_grad=True)


def test_gradients_add_up_until_they_are_cleared(x):
    assert x.grad is None
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None
    assert x.grad is None
    x.grad = kael.tensor([1.0, 1.0])
    (x * 3.0).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_the_gradient_can_be_written(x):
    (x * x).sum().backward()
    x.grad.mul_(0.0)
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_gradient_of_another_shape_or_kind_is_refused(x):
    with pytest.raises(
        kael.Error,
        match=r"set_grad: a gradient of shape \[3\] .* for a tensor of shape \[2\] .* expected equal",
    ):
        x.grad = kael.tensor([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"grad must be a kael.Tensor or None, not list"):
        x.grad = [1.0, 2.0]
    with pytest.raises(
        kael.Error, match=r"backward: a root of shape \[2\] without a gradient, expected one of that shape"
    ):
        (x * 2.0).backward()
    with pytest.raises(kael.Error, match=r"a gradient of shape \[3\] for a root of shape \[2\]"):
        (x * 2.0).backward(kael.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match=r"a gradient must be a kael.Tensor or None, not float"):
        (x * 2.0).backward([1.0])


def test_what_holds_no_floats_has_no_gradient(x):
    whole = kael.tensor([7, 8])
    whole.copy_(x)
    whole[:1] = x[1:]
    made = {
        "conversion": x.int(),
        "bool": x.bool(),
        "comparison": x > 1.0,
        "argmax": x.argmax(),
        "write": whole,
        "view of a conversion": x.int()[:1],
    }
    assert {name: (tensor.requires_grad, tensor.grad_fn) for name, tensor in made.items()} == dict.fromkeys(
        made, (False, None)
    )
    assert whole.tolist() == [2, 2]
    assert not x.int().float().requires_grad
    (x * x.int().float()).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_only_floats_require_gradients():
    with pytest.raises(kael.Error, match="dtype int64"):
        kael.tensor([1, 2], requires_grad=True)
    y = kael.tensor([1, 2])
    with pytest.raises(kael.Error, match="dtype int64 can need no gradient, expected a floating-point one"):
        y.requires_grad = True
    with pytest.raises(TypeError, match="requires_grad must be True or False, not int"):
        kael.tensor([1.0]).requires_grad_(1)


def test_a_leaf_knows_that_it_is_one(x):
    y = x * 2.0
    assert (x.is_leaf, x.grad_fn, x.requires_grad) == (True, None, True)
    assert (y.is_leaf, y.grad_fn.name(), y.requires_grad) == (False, "MulBackward", True)
    assert repr(y).endswith("grad_fn=MulBackward)")
    assert repr(x).endswith("requires_grad=True)")


def test_detach_shares_memory_and_forgets(x):
    y = (x * 2.0).detach()
    assert y.is_leaf
    assert not y.requires_grad
    z = x.detach()
    z.mul_(10.0)
    assert x.tolist() == [10.0, 20.0]


def test_numpy_of_what_requires_a_gradient_is_refused(x):
    with pytest.raises(kael.Error, match=r"use t.detach\(\).numpy\(\)"):
        x.numpy()
    assert x.detach().numpy().tolist() == [1.0, 2.0]
    assert x.tolist() == [1.0, 2.0]


def test_no_grad_is_a_scope_and_a_decorator_of_one_thread(x):
    seen = {}

    @kael.no_grad()
    def inside():
        with kael.enable_grad():
            seen["enabled"] = (x * 2.0).requires_grad
        thread = threading.Thread(target=lambda: seen.update(other=(x * 2.0).requires_grad))
        thread.start()
        thread.join()
        return (x * 2.0).requires_grad

    assert inside() is False
    assert seen == {"enabled": True, "other": True}
    assert kael.is_grad_enabled()
    with pytest.raises(ValueError, match="mine"), kael.no_grad():
        raise ValueError("mine")
    assert kael.is_grad_enabled()


def test_set_grad_enabled_acts_at_once_and_as_a_scope(x):
    kael.set_grad_enabled(False)
    try:
        assert not (x * 2.0).requires_grad
        with kael.set_grad_enabled(True):
            assert (x * 2.0).requires_grad
        assert not kael.is_grad_enabled()
    finally:
        kael.set_grad_enabled(True)

    @kael.set_grad_enabled(False)
    def inside():
        return kael.is_grad_enabled()

    assert kael.is_grad_enabled()
    assert inside() is False
    assert kael.is_grad_enabled()


def test_grad_answers_without_adding_up(x):
    w = kael.tensor(3.0, requires_grad=True)
    loss = (x * x * w).sum()
    by_x, by_w = kael.grad(loss, [x, w])
    assert by_x.tolist() == [6.0, 12.0]
    assert by_w.item() == 5.0
    assert x.grad is None
    other = kael.tensor(1.0, requires_grad=True)
    with pytest.raises(
        kael.Error, match="grad: no root depends on input 1 of 2, expected one that does: pass allow_unused"
    ):
        kael.grad((x * w).sum(), [x, other])
    assert kael.grad((x * w).sum(), [x, other], allow_unused=True)[1] is None
    with pytest.raises(TypeError, match=r"inputs must be kael\.Tensor, not float"):
        kael.grad((x * w).sum(), [x, 1.0])
    with pytest.raises(kael.Error, match="2 grad_outputs for 1 outputs, expected as many"):
        kael.grad((x * w).sum(), x, [None, None])


def test_grad_of_several_outputs_is_that_of_their_weighted_sum(x):
    weights = kael.tensor([10.0, 100.0])
    (gradient,) = kael.grad([x * 2.0, x.sum()], x, [weights, None])
    assert gradient.tolist() == [21.0, 201.0]


def test_a_graph_walks_once_unless_it_is_kept(x):
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(
        kael.Error, match=r"MulBackward was walked before.*expected it kept: pass retain_graph"
    ):
        loss.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_a_saved_tensor_that_was_written_is_an_error(x):  # KB031
    y = x * 2.0
    z = y.exp()
    z.add_(1.0)
    with pytest.raises(
        kael.Error,
        match=r"ExpBackward needs the tensor of shape \[2\] that it saved, .* at version 1, expected 0:",
    ):
        z.sum().backward()


def test_in_place_on_a_leaf_is_an_error(x):
    with pytest.raises(
        kael.Error, match=r"add_ would overwrite a leaf of shape \[2\] that needs a gradient, expected one"
    ):
        x.add_(1.0)
    with pytest.raises(
        kael.Error, match=r"add_ would overwrite a view of a leaf .* expected one that needs none"
    ):
        x[0].add_(1.0)
    with kael.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0, 3.0]


def test_in_place_on_a_row_reaches_the_whole():
    a = kael.tensor([[1.0, 1.0], [1.0, 1.0]], requires_grad=True)
    b = a * 2.0
    b[0].mul_(3.0)
    b.sum().backward()
    assert a.grad.tolist() == [[6.0, 6.0], [2.0, 2.0]]


def test_a_long_chain_is_walked_and_freed():  # KB043
    x = kael.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.backward()
    del y
    gc.collect()
    assert x.grad.item() == 1.0


def test_threads_walk_their_own_graphs():
    results = []

    def work(value):
        x = kael.tensor(np.full(1000, value), requires_grad=True)
        for _ in range(20):
            (x * x).sum().backward()
        results.append(x.grad[0].item() / value)

    threads = [threading.Thread(target=work, args=(float(value),)) for value in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [40.0] * 3


# ---- Hooks


def test_a_hook_sees_and_replaces_the_gradient(x):
    y = x * 2.0
    seen = []
    handle = y.register_hook(lambda gradient: seen.append(gradient.tolist()))
    other = y.register_hook(lambda gradient: gradient * 10.0)
    (y * 5.0).sum().backward(retain_graph=True)
    assert seen == [[5.0, 5.0]]
    assert x.grad.tolist() == [100.0, 100.0]
    handle.remove()
    handle.remove()
    other.remove()
    x.grad = None
    (y * 5.0).sum().backward()
    assert len(seen) == 1
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_hook_on_a_leaf_sees_the_sum_of_its_gradients(x):
    seen = []
    x.register_hook(lambda gradient: seen.append(gradient.tolist()))
    (x * x + x).sum().backward()
    assert seen == [[3.0, 5.0]]


def test_what_a_hook_raises_ends_the_walk_and_is_raised(x):
    def fail(gradient):
        raise ValueError("mine")

    y = x * 2.0
    y.register_hook(fail)
    with pytest.raises(ValueError, match="mine"):
        y.sum().backward(retain_graph=True)
    assert x.grad is None
    with pytest.raises(ValueError, match="mine"):
        kael.grad(y.sum(), x)
    (x * 2.0).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_hook_that_answers_something_else_is_an_error(x):
    y = x * 2.0
    handle = y.register_hook(lambda gradient: 3)
    with pytest.raises(TypeError, match=r"a hook must return a kael\.Tensor or None, not int"):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.register_hook(lambda gradient: kael.zeros(3))
    with pytest.raises(kael.Error, match=r"a hook answered with a gradient of shape \[3\]"):
        y.sum().backward()
    with pytest.raises(
        kael.Error, match="a hook on the gradient of a tensor that needs none, expected one that"
    ):
        kael.zeros(2).register_hook(print)
    with pytest.raises(TypeError, match="hook must be callable, not int"):
        x.register_hook(3)


def test_a_hook_is_let_go_with_the_graph(x):
    class Hook:
        def __call__(self, gradient):
            return None

    hook = Hook()
    gone = weakref.ref(hook)
    y = x * 2.0
    y.register_hook(hook)
    del hook
    loss = y.sum()
    del y
    loss.backward()
    assert gone() is not None
    del loss
    gc.collect()
    assert gone() is None


def test_a_hook_may_remove_itself_while_it_is_let_go(x):
    class Hook:
        def __call__(self, gradient):
            return None

        def __del__(self):
            removals.append(self.handle.remove())

    removals = []
    for tensor in (x, x * 2.0):
        hook = Hook()
        hook.handle = tensor.register_hook(hook)
        handle = hook.handle
        del hook
        handle.remove()
    gc.collect()
    assert removals == [None, None]
    (x * 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
