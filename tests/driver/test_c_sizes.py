"""Sizes in C have Python's values, also where they are negative or are divided by zero."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from burnish.driver.c_sizes import ARITHMETIC, CSizes
from burnish.support.errors import ParseError, VMError
from burnish.vm.shape_text import compile_shape

NAMES = ("m", "n")
TEXTS = (
    *("m // n", "m % n", "(m + 7) // 8 * 8", "-m // 3 - n % -5", "min(m, n, 3)", "max(m * 2, n)"),
    *("m < n", "1 <= m < n", "m == n", "m // (n // 2)", "m % (n - 1 != 0) + 12345678901"),
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_values(tmp_path: Path) -> None:
    cases, expected = [], []
    for text in TEXTS:
        sizes = CSizes(NAMES)
        made = sizes.expression(text)
        cases.append(
            f"{{{sizes.divided_by_zero().replace('return', 'problem =')}"
            f'    if (problem) puts("zero"); else printf("%lld\\n", (long long){made});}}'
        )
        for at in itertools.product(range(-4, 5), repeat=2):
            try:
                value = compile_shape(text, NAMES)(at)
            except VMError:
                value = "zero"
            expected.append(str(int(value) if value != "zero" else value))
    program = "".join(
        f"for (d[0] = -4; d[0] < 5; d[0]++) for (d[1] = -4; d[1] < 5; d[1]++) "
        f"{{ const char *problem = 0; {case} }}\n"
        for case in cases
    )
    source = f"#include <stdint.h>\n#include <stdio.h>\n{ARITHMETIC}"
    (tmp_path / "s.c").write_text(
        f"{source}int main(void) {{ int64_t d[2];\n{program} return 0; }}"
    )
    subprocess.run(["cc", "-o", "s", "s.c"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "s"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == expected


def test_what_is_no_size() -> None:
    with pytest.raises(ParseError, match="unknown dimension 'k'"):
        CSizes(NAMES).expression("k + 1")
    assert CSizes(NAMES).expression("m // 2") == "quotient(d[0], INT64_C(2))"
