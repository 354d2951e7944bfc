"""The README's example runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_python_example_runs_and_prints_its_guarantee():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon 0.5 when one person's record changes" in done.stdout
