"""Looks into the compiled kernels for what no run on one machine shows.

1. Nothing but the table leaves a unit. An inline function with external linkage, compiled with wide
   instructions, could be the copy that the linker keeps for every caller, also on processors without them.
2. No inner loop keeps its sums in memory. Compilers have done so at a whim, at a third of the speed.

Usage: check_kernel_objects.py NM OBJDUMP OBJECT...   Exits with 1 and one line for each finding.
"""

import re
import subprocess
import sys
from pathlib import Path

# What compilers call for copies and for position-independent code.
ALLOWED_UNDEFINED = {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
TABLE = re.compile(r"kael::kernels::k\w+Kernels$")

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)$")
STACK_SLOT = re.compile(r"-?(0x)?[0-9a-f]*\(%r[sb]p\)")
# A loop that matters has at least so many multiply-adds.
LEAST_MULTIPLY_ADDS = 8

Instruction = tuple[int, str, str]  # address, operation, operands


def run(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def symbol_findings(nm: str, path: Path) -> list[str]:
    findings = []
    for line in run(nm, "--demangle", str(path)):
        kind, name = line[17:].split(" ", 1)
        visible = kind not in "tdrbnN"
        if kind == "U" and name not in ALLOWED_UNDEFINED:
            findings.append(f"{path.name}: needs {name}, expected one of {sorted(ALLOWED_UNDEFINED)}")
        elif kind != "U" and visible and not TABLE.search(name):
            findings.append(f"{path.name}: {name} is visible to other units, expected the table alone")
    return findings


def functions(objdump: str, path: Path) -> dict[str, list[Instruction]]:
    found: dict[str, list[Instruction]] = {}
    name = ""
    for line in run(objdump, "--disassemble", "--no-show-raw-insn", "--demangle", str(path)):
        if function := FUNCTION.match(line):
            name = function.group(1)
        elif instruction := INSTRUCTION.match(line):
            address, operation, operands = instruction.groups()
            found.setdefault(name, []).append((int(address, 16), operation, operands))
    return found


def inner_loops(instructions: list[Instruction]):
    """Stretches from the target of a backward jump to the jump, without those that contain another."""
    index = {instruction[0]: i for i, instruction in enumerate(instructions)}
    ends: dict[int, int] = {}
    for i, (_, operation, operands) in enumerate(instructions):
        target = re.match(r"([0-9a-f]+) <", operands) if operation.startswith("j") else None
        start = index.get(int(target.group(1), 16), i) if target else i
        if start < i:
            ends.setdefault(start, i)
    for start, end in ends.items():
        if not any(start < other and ends[other] <= end for other in ends):
            yield instructions[start : end + 1]


def sums_in_memory(loop: list[Instruction]) -> set[str]:
    """Stack slots with a vector that the loop both reads and writes."""
    read, written = set(), set()
    for _, operation, operands in loop:
        slot = STACK_SLOT.search(operands)
        if slot and re.search(r"%[xyz]mm", operands) and "movq" not in operation:
            is_store = "mov" in operation and operands.endswith(slot.group())
            (written if is_store else read).add(slot.group())
    return read & written


def loop_findings(objdump: str, path: Path) -> tuple[list[str], int]:
    findings = []
    seen = 0
    for name, instructions in functions(objdump, path).items():
        # Products of whole numbers keep their float sums, added to once a group, in the first-level cache.
        counted = r"vpdpbusd" if "Integer" in name else r".*fmadd|mulps$"
        for loop in inner_loops(instructions):
            multiply_adds = sum(re.match(counted, operation) is not None for _, operation, _ in loop)
            if multiply_adds >= LEAST_MULTIPLY_ADDS:
                seen += 1
                slots = sums_in_memory(loop)
                if len(slots) > multiply_adds // 4:  # a few are harmless
                    findings.append(
                        f"{path.name}: {name}: loop {loop[0][0]:#x} with {multiply_adds} multiply-adds "
                        f"keeps {len(slots)} sums in memory, expected registers"
                    )
    return findings, seen


def main() -> int:
    nm, objdump, *paths = sys.argv[1:]
    findings = []
    loops = 0
    for path in map(Path, paths):
        in_loops, seen = loop_findings(objdump, path)
        findings += symbol_findings(nm, path) + in_loops
        loops += seen
    print(f"{len(paths)} objects, {loops} inner loops", *findings, sep="\n")
    return 1 if findings or loops == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
