"""What a script in Python imports before kael: the package is that of this checkout, and where Python lacks
what it needs, .venv runs the script instead."""

import importlib.util
import os
import pathlib
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_VENV = _ROOT / ".venv"

if importlib.util.find_spec("numpy") is None:
    python = _VENV / "bin/python"
    if not python.exists() or pathlib.Path(sys.prefix) == _VENV:
        sys.exit(
            f"{sys.argv[0]}: kael needs numpy, which {sys.executable} lacks: scripts/test makes .venv with it"
        )
    os.execv(python, [str(python), *sys.argv])
sys.path.insert(0, str(_ROOT / "py"))
