from __future__ import annotations

from burnish.support.errors import DependenceError
from burnish.tensorir.analysis.block_site import BlockSite
from burnish.tensorir.analysis.paths import find_block
from burnish.tests.tensorir.schedule.programs import chain


def test_a_block_its_scope_and_an_error_about_it() -> None:
    func = chain()
    site = BlockSite(func, "test", find_block(func, "B", "test"))
    assert (site.realize.block.name, site.block.name, site.scope.name) == ("B", "B", "root")
    error = site.error(DependenceError, "It may not.", site.block)
    assert isinstance(error, DependenceError)
    assert str(error).startswith("test: It may not.")
    assert "^" in str(error)
