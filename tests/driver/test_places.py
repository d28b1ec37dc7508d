"""Places that could not be written are found before anything is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnish.driver.places import verify_places
from burnish.support.errors import ArgumentError


def test_places(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    verify_places(
        {"-o": str(tmp_path / "m.burnish"), "--trace": None, "--over": str(tmp_path / "file")},
        {"--report": str(tmp_path / "new" / "folder"), "--none": None},
    )
    with pytest.raises(ArgumentError, match=r"-o: expected the name of a file; .* is a folder"):
        verify_places({"-o": str(tmp_path)})
    for bad in (tmp_path / "none" / "m.burnish", tmp_path / "file" / "m.burnish"):
        with pytest.raises(ArgumentError, match="-o: nothing can be written into"):
            verify_places({"-o": str(bad)})
    with pytest.raises(ArgumentError, match="--report: nothing can be written into"):
        verify_places({}, {"--report": str(tmp_path / "file" / "folder")})
