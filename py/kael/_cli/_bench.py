"""Measure a model next to what the machine can do.

Decoding is held against the memory bandwidth, prompts against the multiply-adds of the processor. Both limits
are measured in the same run, before and after each sample, since a machine's limits move by the minute.
Figures are medians. More than
100 % of the bandwidth is read where weights stay in the processor's cache.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import kael
from kael import _early, _generation, _machine
from kael._cli import _arguments
from kael._cli._bench_figures import ModelBench
from kael._cli._bench_quality import measure_quality, read_text
from kael._cli._bench_speculation import measure_speculation, show_speculation
from kael._cli._bench_table import compare, read_report, show
from kael._cli._progress_line import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments.add_data(parser)
    parser.add_argument(
        "--dtype",
        metavar="TYPE,TYPE",
        type=_arguments.weight_formats,
        default=["float32"],
        help="what to keep and multiply the weights in: float32, bfloat16, int8, int4 (default: float32)",
    )
    parser.add_argument(
        "--threads",
        metavar="N,N",
        type=_arguments.whole_numbers(1, 256),
        help="threads to compute with (default: KAEL_NUM_THREADS, else all processors)",
    )
    lengths = _arguments.whole_numbers(1, 2**20)
    parser.add_argument(
        "--depths",
        metavar="N,N",
        type=lengths,
        default=[32, 512],
        help="decode about this far into a text (default: 32,512)",
    )
    parser.add_argument(
        "--prompts",
        metavar="N,N",
        type=lengths,
        default=[32, 512, 960],
        help="lengths of prompts to read (default: 32,512,960)",
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=_arguments.whole_number(1, 1000),
        default=5,
        help="samples (default: 5)",
    )
    parser.add_argument(
        "--text",
        metavar="FILE",
        type=_arguments.path,
        help="also say how well each dtype predicts this text, which the model has not seen",
    )
    parser.add_argument(
        "--speculate",
        metavar="N",
        type=_arguments.whole_number(0, _generation.MAX_GUESSES),
        default=0,
        help="also say what guessing up to N tokens at once gains and costs (default: 0, which says nothing)",
    )
    parser.add_argument(
        "--compare",
        metavar="FILE",
        type=_arguments.path,
        help="an earlier report (JSON): add the ratio of each speed to the one there",
    )
    parser.add_argument("--json", action="store_true", help="JSON, also where the output is a terminal")


def run(options: argparse.Namespace) -> int:
    folder = _arguments.data_folder(options)
    earlier = read_report(options.compare) if options.compare is not None else None
    text = read_text(folder, options.text) if options.text is not None else None
    threads = options.threads or [kael.get_num_threads()]
    progress = Progress()
    try:
        with _early.signals_interrupt():
            report: dict[str, Any] = {
                "version": kael.__version__,
                "build": kael.build_info(),
                "machine": {
                    "processor": _machine.processor_name(),
                    "processors": _machine.processor_count(),
                },
                "results": [],
            }
            for dtype in options.dtype:
                bench = ModelBench(folder, dtype, options.repeats, progress)
                report["model"] = bench.describe_model()
                report["results"] += [
                    bench.measure(count, options.depths, options.prompts) for count in threads
                ]
            if text is not None:
                kael.set_num_threads(max(threads))
                report["quality"] = measure_quality(folder, options.dtype, text, progress)
            if options.speculate:
                kael.set_num_threads(max(threads))
                report["speculation"] = measure_speculation(
                    folder, options.dtype, options.speculate, options.repeats, progress
                )
    finally:
        progress.clear()
    if earlier is not None:
        compare(report, earlier)
    if options.json or not sys.stdout.isatty():
        print(json.dumps(report))
    else:
        show(report)
        show_speculation(report.get("speculation", []))
    return 0
