"""The debugging tools: what they say of tensors, graphs and backward passes."""

from __future__ import annotations

import html
import json
import pickle
import shutil
import sys
import threading
import traceback

import numpy as np
import pytest

import kael


@pytest.fixture
def x():
    return kael.tensor([1.0, 2.0], requires_grad=True)


def test_explain_names_every_field(x):
    lines = dict(line.split(": ", 1) for line in kael.explain(x * x).splitlines())
    assert lines["shape"] == "[2]"
    assert lines["grad_fn"] == "MulBackward"
    assert lines["leaf"] == "no"
    with pytest.raises(TypeError, match=r"a kael\.Tensor is expected, not list"):
        kael.explain([1.0])


def test_the_graph_is_in_the_language_of_graphviz(x):
    assert kael.autograd_graph((x * x).sum()) == (
        "digraph autograd {\n"
        '  n0 [label="SumBackward"];\n'
        '  n1 [label="MulBackward"];\n'
        '  n0 -> n1 [label="[2]"];\n'
        '  n2 [label="AccumulateGrad"];\n'
        '  n1 -> n2 [label="[2]"];\n'
        '  n1 -> n2 [label="[2]"];\n'
        "}\n"
    )
    assert kael.autograd_graph(kael.tensor([1.0])) == "digraph autograd {\n}\n"


def test_the_trace_goes_to_a_callable_or_a_file(x, tmp_path):
    lines = []
    kael.set_backward_trace(lines.append)
    try:
        (x * 2.0).sum().backward()
        with (tmp_path / "trace").open("w") as file:
            kael.set_backward_trace(file)
            (x * 2.0).sum().backward()
    finally:
        kael.set_backward_trace(None)
    assert lines == [
        "backward SumBackward shape=[] norm=1\n",
        "backward MulBackward shape=[2] norm=1.41421\n",
        "backward AccumulateGrad shape=[2] norm=2.82843\n",
    ]
    assert (tmp_path / "trace").read_text() == "".join(lines)
    (x * 2.0).sum().backward()
    assert len(lines) == 3
    with pytest.raises(TypeError, match="output must be a file, a callable or None, not int"):
        kael.set_backward_trace(3)


def test_records_say_what_each_operator_took_and_returned(x):
    records = []
    kael.set_backward_trace(records.append, records=True)
    try:
        (x * kael.tensor([[0.0, float("inf")], [1.0, 1.0]])).sum().backward()
    finally:
        kael.set_backward_trace(None)
    assert all(record.pop("milliseconds") >= 0.0 for record in records)
    whole = {"dtype": "float32", "nans": 0}
    assert records == [
        {**whole, "node": "SumBackward", "shape": [], "norm": 1.0, "returned": [[2, 2]], "bytes": 16}
        | {"infinities": 0},
        {
            **whole,
            "node": "MulBackward",
            "shape": [2, 2],
            "norm": 2.0,
            "returned": [[2, 2], None],
            "bytes": 16,
        }
        | {"infinities": 1},
        {**whole, "node": "AccumulateGrad", "shape": [2], "norm": float("inf"), "returned": [], "bytes": 0}
        | {"infinities": 0},
    ]
    (x * 2.0).sum().backward()
    assert len(records) == 3


def test_records_go_to_a_file_as_lines_of_json(x, tmp_path):
    with (tmp_path / "trace").open("w") as file:
        kael.set_backward_trace(file, records=True)
        try:
            (x * 2.0).sum().backward(create_graph=True)
        finally:
            kael.set_backward_trace(None)
    lines = (tmp_path / "trace").read_text().splitlines()
    assert [json.loads(line)["node"] for line in lines] == ["SumBackward", "MulBackward", "AccumulateGrad"]


def test_lines_and_records_take_each_others_place(x):
    lines, records = [], []
    try:
        kael.set_backward_trace(lines.append)
        kael.set_backward_trace(records.append, records=True)
        (x * 2.0).sum().backward()
        assert (lines, len(records)) == ([], 3)
        kael.set_backward_trace(lines.append)
        (x * 2.0).sum().backward()
        assert (len(lines), len(records)) == (3, 3)
    finally:
        kael.set_backward_trace(None)


def test_an_exception_of_the_trace_is_raised_after_the_walk(x):
    def fail(line):
        raise ValueError("mine")

    kael.set_backward_trace(fail)
    try:
        with pytest.raises(ValueError, match="mine"):
            (x * 2.0).sum().backward()
    finally:
        kael.set_backward_trace(None)
    assert x.grad.tolist() == [2.0, 2.0]
    (x * 2.0).sum().backward()


def test_anomaly_detection_names_the_operator_and_ends_with_its_scope():
    bad = kael.tensor([-1.0], requires_grad=True)
    with kael.set_anomaly_detection(True), pytest.raises(kael.Error) as caught:
        bad.sqrt().sum().backward()
    assert str(caught.value).startswith("kael error at ")
    assert str(caught.value).endswith(" failed: Function SqrtBackward returned NaN in its gradient")
    bad.sqrt().sum().backward()
    kael.set_anomaly_detection(True)
    try:
        with pytest.raises(kael.Error, match="SqrtBackward"):
            bad.sqrt().sum().backward()
    finally:
        kael.set_anomaly_detection(False)


def test_an_explanation_as_data_has_what_the_text_says(x):
    y = x * x
    data = kael.explain(y, format="dict")
    lines = dict(line.split(": ", 1) for line in kael.explain(y).splitlines())
    assert data["shape"] == [2]
    assert lines["strides"] == str(data["strides"])
    assert lines["offset"] == str(data["offset"])
    assert lines["dtype"] == data["dtype"]
    assert lines["device"] == data["device"]
    assert lines["grad_fn"] == data["grad_fn"]
    assert (data["requires_grad"], data["leaf"], data["has_grad"], data["contiguous"]) == (
        True,
        False,
        False,
        True,
    )
    storage = data["storage"]
    address, size, version, references = lines["storage"].split(", ")
    assert int(address, 16) == storage["address"] == y.detach().numpy().ctypes.data
    assert size == f"{storage['bytes']} bytes"
    assert version == f"version {storage['version']}"
    assert references == f"references: {storage['references']}"
    assert json.loads(kael.explain(y, format="json")) == kael.explain(y, format="dict")
    assert kael.explain(x, format="dict")["grad_fn"] is None


def test_an_explanation_tells_whose_memory_it_is_and_where_in_its_file(tmp_path):
    path = tmp_path / "weights\udcff.safetensors"
    first = np.arange(3, dtype=np.float32)
    kael.save_safetensors(path, {"a": first, "b": first + 3.0})
    loaded = kael.load_safetensors(path, mode="mapped")["b"]
    storage = kael.explain(loaded[1:], format="dict")["storage"]
    assert storage["memory"] == "mapped"
    assert storage["read_only"]
    assert storage["file"] == str(path).replace("\udcff", "\\xff")
    start = storage["file_offset"]
    assert path.read_bytes()[start : start + storage["bytes"]] == (first + 3.0).tobytes()
    array = np.zeros(4)
    storage = kael.explain(kael.from_numpy(array), format="dict")["storage"]
    assert (storage["memory"], storage["address"]) == ("borrowed", array.ctypes.data)
    assert "file" not in storage
    assert kael.explain(kael.zeros(1), format="dict")["storage"]["memory"] == "owned"


def test_an_explanation_lists_the_tensors_on_the_storage():
    x = kael.zeros(4, 4)
    views = [x.T, x[1:3], x.detach()]
    storage = kael.explain(x, format="dict")["storage"]
    assert [(view["shape"], view["strides"], view["offset"]) for view in storage["views"]] == [
        ([4, 4], [4, 1], 0),
        ([4, 4], [1, 4], 0),
        ([2, 4], [4, 1], 4),
        ([4, 4], [4, 1], 0),
    ]
    assert storage["references"] == 4
    del views
    assert len(kael.explain(x, format="dict")["storage"]["views"]) == 1


def test_a_graph_as_data_has_the_nodes_and_edges_of_the_text(x):
    loss = ((x * x + x) @ x).sum()
    graph = kael.autograd_graph(loss, format="dict")
    text = "digraph autograd {\n"
    for node in graph["nodes"]:
        text += f'  n{node["id"]} [label="{node["name"]}"];\n'
    edges = [f'  n{e["from"]} -> n{e["to"]} [label="{e["shape"]}"];\n' for e in graph["edges"]]
    assert sorted((text + "".join(edges) + "}\n").splitlines()) == sorted(
        kael.autograd_graph(loss).splitlines()
    )
    assert json.loads(kael.autograd_graph(loss, format="json")) == graph
    (mul,) = [node for node in graph["nodes"] if node["name"] == "MulBackward"]
    assert [tensor["storage_bytes"] for tensor in mul["saved"]] == [8, 8]
    assert graph["held_bytes"] == 16  # x, and x * x + x
    assert kael.autograd_graph(loss, format="dict") == graph
    loss.backward()
    assert kael.autograd_graph(loss, format="dict")["held_bytes"] == 0


def test_a_graph_knows_where_its_operators_were_called_while_anomalies_are_looked_for(x):
    with kael.set_anomaly_detection(True):
        y = x * 3.0
    (node, leaf) = kael.autograd_graph(y, format="dict")["nodes"]
    assert node["call_site"] == site_of("y = x * 3.0")
    assert "call_site" not in leaf


@pytest.mark.parametrize("tool", [kael.explain, kael.autograd_graph])
def test_a_format_that_is_none_is_refused(tool, x):
    with pytest.raises(kael.Error, match="format is 'xml', expected"):
        tool(x, format="xml")
    with pytest.raises(TypeError, match="format must be a str, not int"):
        tool(x, format=1)


def needs_graphviz():
    pytest.importorskip("graphviz", reason="the Python package graphviz is not installed")
    if shutil.which("dot") is None:
        pytest.skip("Graphviz' dot is not installed (Debian: graphviz)")


def test_a_graph_is_drawn_in_the_format_of_the_suffix(x, tmp_path):
    needs_graphviz()
    loss = (x * x).exp().sum()
    kael.draw_graph(loss, tmp_path / "graph.svg", saved=True)
    picture = (tmp_path / "graph.svg").read_text()
    for part in ("Sum", "Exp", "Mul", "leaf", "float32 [2]", "saved float32 [2]", "8 bytes", "\u00d72"):
        assert part in html.unescape(picture)
    kael.draw_graph(loss, str(tmp_path / "graph.PNG"))
    assert (tmp_path / "graph.PNG").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"graph.svg", "graph.PNG"}


def test_what_cannot_be_drawn_is_refused(x, tmp_path, monkeypatch):
    y = x
    for _ in range(2000):
        y = -y
    with pytest.raises(kael.Error, match="a graph of 2,001 nodes, expected at most 2,000"):
        kael.draw_graph(y, tmp_path / "graph.svg")
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(kael.Error, match=r"needs the package graphviz: pip install graphviz$") as caught:
        kael.draw_graph(x * x, tmp_path / "graph.svg")
    assert caught.value.code is kael.ErrorCode.UNSUPPORTED
    monkeypatch.undo()
    needs_graphviz()
    with pytest.raises(kael.Error, match=r"the suffix '\.txt2' is no format of Graphviz: .*svg"):
        kael.draw_graph(x * x, tmp_path / "graph.txt2")
    with pytest.raises(kael.Error, match="No such file or directory"):
        kael.draw_graph(x * x, tmp_path / "absent" / "graph.svg")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kael.Error, match="needs the program dot"):
        kael.draw_graph(x * x, tmp_path / "graph.svg")
    (tmp_path / "dot").write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    (tmp_path / "dot").chmod(0o755)
    with pytest.raises(kael.Error, match=r"graph\.svg: Graphviz failed: .*it is broken"):
        kael.draw_graph(x * x, tmp_path / "graph.svg")


# ---- Anomalies


def site_of(line_text):
    """ "FILE:LINE" of the one line of this module that holds the text."""
    with open(__file__, encoding="utf-8") as source:
        (line,) = [number for number, line in enumerate(source, 1) if line.strip() == line_text]
    return f"{__file__}:{line}"


def test_an_anomaly_says_all_that_is_known_of_it_KB047():
    zero = kael.tensor([4.0, 0.0], requires_grad=True)
    with kael.set_anomaly_detection(True):
        root = zero.sqrt()
        with pytest.raises(kael.AnomalyError) as caught:
            (root * kael.tensor([1.0, 0.0])).sum().backward()
    error = caught.value
    assert error.message == "Function SqrtBackward returned NaN in its gradient"
    assert error.code is kael.ErrorCode.ANOMALY
    assert isinstance(error, kael.Error)
    assert not error.in_forward
    assert error.operation == "SqrtBackward"
    assert error.inside == ""
    assert error.call_site == site_of("root = zero.sqrt()")
    whole = {"dtype": "float32", "shape": (2,), "nans": 0, "infinities": 0}
    assert error.operands == [{**whole, "least": 0.0, "most": 4.0}]
    assert error.taken == {**whole, "least": 0.0, "most": 1.0}
    assert error.output == 0
    assert error.found == {**whole, "least": 0.25, "most": 0.25, "nans": 1}
    assert error.first_bad_index == (1,)
    assert error.creators == []
    shown = "".join(traceback.format_exception(error))
    for part in (error.operation, error.call_site, "operand 0: float32 [2], 0 to 4", "the first at [1]"):
        assert part in shown
    again = pickle.loads(pickle.dumps(error))
    assert (again.details, again.operands, str(again)) == (error.details, error.operands, str(error))


def test_an_anomaly_of_a_second_derivative_names_those_whose_backward_made_its_node_KB046():
    x = kael.tensor([1.0], requires_grad=True)
    y = kael.tensor([0.0], requires_grad=True)
    with kael.set_anomaly_detection(True):  # the first gradients are infinite, which passes
        quotient = x / y
        first = kael.grad(quotient.sum(), [x, y], create_graph=True)
    with kael.set_anomaly_detection(True, mode="inf"), pytest.raises(kael.AnomalyError) as caught:
        kael.grad(first[0].sum() + first[1].sum(), [x, y])
    assert caught.value.call_site == site_of("first = kael.grad(quotient.sum(), [x, y], create_graph=True)")
    assert caught.value.creators == [("DivBackward", site_of("quotient = x / y"))]
    assert "recorded by the backward pass of DivBackward, called at " in caught.value.details


def test_the_creators_of_a_third_derivative_are_a_chain():
    x = kael.tensor([0.0], requires_grad=True)
    with kael.set_anomaly_detection(True, mode="both"):
        power = x**2.5
        (slope,) = kael.grad(power.sum(), x, create_graph=True)
        (second,) = kael.grad(slope.sum(), x, create_graph=True)
        with pytest.raises(kael.AnomalyError) as caught:
            kael.grad(second.sum(), x)
    assert caught.value.creators[-1] == ("PowBackward", site_of("power = x**2.5"))
    assert caught.value.creators[0][1] == site_of("(slope,) = kael.grad(power.sum(), x, create_graph=True)")
    assert len(caught.value.creators) == 2


def test_the_creator_of_a_node_is_known_by_name_where_detection_was_off_before():
    x = kael.tensor([0.0], requires_grad=True)
    power = x**1.5
    with kael.set_anomaly_detection(True, mode="both"):
        (first,) = kael.grad(power.sum(), x, create_graph=True)
        with pytest.raises(kael.AnomalyError) as caught:
            first.sum().backward()
    assert caught.value.creators == [("PowBackward", "")]


def test_what_was_recorded_before_detection_has_no_call_site_and_no_ranges():
    root = kael.tensor([[-1.0, 1.0]], requires_grad=True).sqrt()
    with kael.set_anomaly_detection(True), pytest.raises(kael.AnomalyError) as caught:
        root.sum().backward()
    assert caught.value.call_site == ""
    assert caught.value.operands == [{"dtype": "float32", "shape": (1, 2)}]
    assert caught.value.first_bad_index == (0, 0)
    assert "the operator was called at an unknown place" in caught.value.details


@pytest.mark.parametrize(
    ("mode", "value", "kind"),
    [
        ("nan", -1.0, "NaN"),
        ("nan", 0.0, None),
        ("inf", -1.0, None),
        ("inf", 0.0, "infinity"),
        ("both", -1.0, "NaN"),
        ("both", 0.0, "infinity"),
        ("both", 1.0, None),
    ],
)
def test_a_mode_says_what_is_an_anomaly(mode, value, kind):
    x = kael.tensor([value], requires_grad=True)
    with kael.set_anomaly_detection(True, mode=mode):
        if kind is None:
            x.sqrt().sum().backward()
        else:
            with pytest.raises(kael.AnomalyError, match=f"SqrtBackward returned {kind} in its gradient"):
                x.sqrt().sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_forward_check_names_the_operator_at_once(requires_grad):
    x = kael.tensor([[1.0, 0.0], [2.0, -1.0]], requires_grad=requires_grad)
    with kael.set_anomaly_detection(True, check_forward=True):
        with pytest.raises(kael.AnomalyError) as caught:
            x.log()  # fails here
        assert kael.tensor([float("nan")]).shape == (1,)  # as it was asked for
        kael.full((2,), float("nan"))
    assert caught.value.message == "Operator log returned NaN in its result"
    assert caught.value.in_forward
    assert caught.value.operation == "log"
    assert caught.value.call_site == site_of("x.log()  # fails here")
    assert caught.value.first_bad_index == (1, 1)
    assert caught.value.found["infinities"] == 1
    assert caught.value.operands[0]["least"] == -1.0
    assert caught.value.taken is None
    assert x.log().isnan().any().item()


def test_the_forward_check_says_inside_which_operator_it_was():
    x = kael.tensor([float("inf"), 0.0], requires_grad=True)
    with (
        kael.set_anomaly_detection(True, check_forward=True),
        pytest.raises(kael.AnomalyError) as caught,
    ):
        kael.nn.functional.mse_loss(x, x.detach())
    assert caught.value.operation == "sub"
    assert caught.value.inside == "mse_loss"


@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_forward_check_sees_what_is_written_in_place(requires_grad):
    leaf = kael.tensor([4.0, -1.0], requires_grad=requires_grad)
    y = leaf * 1.0
    with (
        kael.set_anomaly_detection(True, check_forward=True),
        pytest.raises(kael.AnomalyError, match=r"Operator sqrt_? returned NaN in its result") as caught,
    ):
        y.sqrt_()
    assert caught.value.operands[0]["least"] == -1.0  # before it was written over


def test_gradients_with_a_graph_of_their_own_are_judged_as_gradients():
    x = kael.tensor([0.0], requires_grad=True)
    with kael.set_anomaly_detection(True, mode="both", check_forward=True):
        root = x.sqrt()
        with pytest.raises(kael.AnomalyError, match="Function SqrtBackward returned infinity"):
            kael.grad(root.sum(), x, create_graph=True)


def test_a_backward_pass_inside_a_hook_is_no_creator_of_what_another_records():
    outer = kael.tensor([1.0], requires_grad=True)
    inner = kael.tensor([0.0], requires_grad=True)
    caught = []

    @kael.enable_grad()
    def hook(gradient):
        try:
            kael.grad(kael.grad((inner**1.5).sum(), inner, create_graph=True)[0].sum(), inner)
        except kael.AnomalyError as error:
            caught.append(error)

    y = outer * 2.0
    y.register_hook(hook)
    with kael.set_anomaly_detection(True, mode="both"):
        y.sum().backward()
    assert [name for name, _ in caught[0].creators] == ["PowBackward"]


def test_every_thread_has_its_own_creators_and_call_sites():
    found = {}
    together = threading.Barrier(4)

    def work(number):
        x = kael.tensor([0.0] * (number + 1), requires_grad=True)
        together.wait()
        for _ in range(20):
            (first,) = kael.grad((x**1.5).sum(), x, create_graph=True)
            try:
                first.sum().backward()
            except kael.AnomalyError as error:
                found.setdefault(number, set()).add((error.found["shape"], tuple(error.creators)))

    with kael.set_anomaly_detection(True, mode="both"):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    site = site_of("(first,) = kael.grad((x**1.5).sum(), x, create_graph=True)")
    assert found == {n: {((n + 1,), (("PowBackward", site),))} for n in range(4)}


def test_scopes_of_detection_restore_the_mode_before(x):
    with kael.set_anomaly_detection(True, mode="inf", check_forward=True):
        with kael.set_anomaly_detection(False):
            (x - x).log()
        with pytest.raises(kael.AnomalyError, match="Operator log returned infinity"):
            (x - x).log()
    (x - x).log()


def test_a_mode_that_is_none_is_refused():
    with pytest.raises(kael.Error, match="mode is 'all', expected 'nan' or 'inf' or 'both'"):
        kael.set_anomaly_detection(True, mode="all")
    with pytest.raises(TypeError, match="mode must be a str, not int"):
        kael.set_anomaly_detection(True, mode=1)
    with pytest.raises(TypeError, match="check_forward"):
        kael.set_anomaly_detection(True, check_forward=1)
