"""Pictures of graphs, by the packages of the extra ``draw``, which are imported when they are used."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from kael._debug import autograd_graph
from kael._errors import Error, ErrorCode
from kael._tensor import Tensor

# Graphviz takes minutes for more, and nobody could read the picture.
_MOST_NODES = 2000

_PARAMETER, _RESULT, _OPERATOR, _SAVED = "#cfe2f3", "#d9ead3", "#f3f3f3", "#fff2cc"


def draw_graph(tensor: Tensor, path: str | os.PathLike[str], saved: bool = False) -> None:
    """Draws :func:`kael.autograd_graph` to ``path``, whose suffix says how: ``.svg``, ``.png``, ``.pdf`` and
    what else Graphviz writes. Gradients flow from the result, at the top, along the arrows. ``saved`` adds
    what the nodes keep for their backward passes.

    Needs the package graphviz (``pip install graphviz``) and the program ``dot`` (Debian, Ubuntu:
    ``apt-get install graphviz``); a :class:`kael.Error` says which is missing, refuses graphs of more than
    2,000 nodes, and reports what Graphviz refuses.
    """
    target = Path(os.fspath(path))
    graph = autograd_graph(tensor, format="dict")
    if len(graph["nodes"]) > _MOST_NODES:
        raise Error(
            f"a graph of {len(graph['nodes']):,} nodes, expected at most {_MOST_NODES:,}: draw a part of it, "
            'or look at kael.autograd_graph(tensor, format="dict")',
            ErrorCode.UNSUPPORTED,
        )
    graphviz = _graphviz()
    formats = sorted(graphviz.FORMATS)
    suffix = target.suffix[1:].lower()
    if suffix not in formats:
        raise Error(f"{target}: the suffix {target.suffix!r} is no format of Graphviz: {', '.join(formats)}")
    picture = graphviz.Digraph(
        "autograd",
        graph_attr={"nodesep": "0.3", "ranksep": "0.35", "bgcolor": "white"},
        node_attr={
            "fontname": "Helvetica",
            "fontsize": "11",
            "style": "filled,rounded",
            "shape": "box",
            "color": "#666666",
        },
        edge_attr={"fontname": "Helvetica", "fontsize": "9", "color": "#666666", "fontcolor": "#666666"},
    )
    for node in graph["nodes"]:
        _add_node(picture, node, saved)
    _add_edges(picture, graph["edges"])
    try:
        target.write_bytes(picture.pipe(format=suffix))
    except graphviz.ExecutableNotFound:
        raise Error(
            "drawing needs the program dot (Debian, Ubuntu: apt-get install graphviz)", ErrorCode.UNSUPPORTED
        ) from None
    except graphviz.CalledProcessError as error:
        raise Error(f"{target}: Graphviz failed: {error}", ErrorCode.UNSUPPORTED) from None
    except OSError as error:
        raise Error(f"{target}: {error.strerror}", ErrorCode.IO_ERROR) from error


def _graphviz() -> Any:
    try:
        import graphviz
    except ImportError:
        raise Error(
            "drawing needs the package graphviz: pip install graphviz", ErrorCode.UNSUPPORTED
        ) from None
    return graphviz


def _add_node(picture: Any, node: dict[str, Any], saved: bool) -> None:
    name = f"n{node['id']}"
    is_leaf = node["name"] == "AccumulateGrad"
    color = _PARAMETER if is_leaf else _RESULT if node["id"] == 0 else _OPERATOR
    title = "leaf" if is_leaf else node["name"].removesuffix("Backward")
    picture.node(name, f"{title}\n{_described(node)}", fillcolor=color)
    if saved:
        for position, tensor in enumerate(node["saved"]):
            label = f"saved {_described(tensor)}\n{tensor['bytes']:,} bytes"
            if tensor["version"] != tensor["version_now"]:
                label += f"\nchanged since: version {tensor['version']}, now {tensor['version_now']}"
            kept = f"{name}s{position}"
            picture.node(kept, label, shape="note", style="filled", fillcolor=_SAVED, fontsize="9")
            picture.edge(name, kept, style="dashed", arrowhead="none")


def _described(tensor: dict[str, Any]) -> str:
    return f"{tensor['dtype']} {tensor['shape']}"


def _add_edges(picture: Any, edges: list[dict[str, Any]]) -> None:
    """One arrow for each pair of nodes; where several operands are the same, their number beside it."""
    pairs = Counter((edge["from"], edge["to"]) for edge in edges)
    for (start, end), count in pairs.items():
        picture.edge(f"n{start}", f"n{end}", label=f" \u00d7{count}" if count > 1 else "")
