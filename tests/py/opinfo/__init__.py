"""kael's operators against PyTorch's own samples of them (OpInfo): ``python -m opinfo --help``.

PyTorch describes each of its operators by samples of arguments, for every dtype, and by arguments that it
refuses. Here both libraries get them, and kael has to answer what PyTorch answers. What is meant to differ
stands, with its reason, in ``known_differences.tsv``.
"""
