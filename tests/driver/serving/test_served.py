"""The models served: what is refused at the start, what is batched, and reloading."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.driver.serving.served import BatchOptions, Repository
from burnish.support.errors import ArgumentError, ArtifactError, RequestError


def test_a_reload_that_fails_leaves_the_model(dynamic: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.burnish"
    dynamic.save(path)

    async def main() -> None:
        models = Repository({"m": path}, threads=1)
        await models.load_all()
        before = models["m"]
        assert before.is_batched
        x = np.ones((1, *[int(t) for t in before.inputs[0].shape[1:]]), np.float32)
        first = await before.infer((x,))
        path.rename(tmp_path / "old")
        path.write_bytes(b"no model")
        with pytest.raises(ArtifactError):
            await models.load("m")
        assert models["m"] is before
        path.unlink()
        (tmp_path / "old").rename(path)
        pending = asyncio.create_task(before.infer((x,)))
        await asyncio.sleep(0)
        await models.load("m")
        assert models["m"] is not before
        for found in (await pending, await models["m"].infer((x,))):
            np.testing.assert_array_equal(found["output_0"], first["output_0"])
        with pytest.raises(RequestError, match="no model 'q'"):
            await models.load("q")
        await models.close()

    asyncio.run(main())


class _Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"logits": x + 1, "parts": [x * 2]}


def test_nested_outputs_are_named_by_the_way_to_them(tmp_path: Path) -> None:
    x = torch.ones(1, 3)
    burnish.compile(_Named().eval(), (x,), threads=1).save(tmp_path / "m.burnish")

    async def main() -> Any:
        models = Repository({"m": tmp_path / "m.burnish"}, threads=1)
        await models.load_all()
        found = await models["m"].infer((x.numpy(),))
        await models.close()
        return found

    found = asyncio.run(main())
    assert {name: y.tolist() for name, y in found.items()} == {
        "output_0.logits": [[2.0, 2.0, 2.0]],
        "output_0.parts.0": [[2.0, 2.0, 2.0]],
    }


def test_models_of_fixed_sizes_are_not_batched(small: Any, tmp_path: Path) -> None:
    compiled, x, expected = small
    compiled.save(tmp_path / "m.burnish")

    async def main() -> Any:
        models = Repository({"m": tmp_path / "m.burnish"}, threads=1)
        await models.load_all()
        assert not models["m"].is_batched
        result = await models["m"].infer((x.numpy(),))
        await models.close()
        return result["output_0"]

    np.testing.assert_array_equal(asyncio.run(main()), expected.numpy())


def test_a_model_whose_rows_depend_on_each_other_runs_them_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Normalized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - x.mean(0)

    path, rows = tmp_path / "m.burnish", torch.ones(4, 3)
    burnish.compile(Normalized(), (rows,), dynamic_shapes=({0: "batch"},)).save(path)

    async def main() -> list[dict[str, np.ndarray]]:
        models = Repository({"m": path}, threads=1, options=BatchOptions(wait=60))
        await models.load_all()
        assert not models["m"].is_batched
        asked = [np.full((1, 3), value, np.float32) for value in (1, 2)]
        results = await asyncio.gather(*[models["m"].infer((x,)) for x in asked])
        await models.close()
        return results

    for result in asyncio.run(main()):
        np.testing.assert_array_equal(result["output_0"], np.zeros((1, 3), np.float32))
    assert "m run one by one: a row of output_0 changes with the inputs of another" in (
        capsys.readouterr().err
    )


def test_options_are_checked() -> None:
    with pytest.raises(ArgumentError, match="max_rows"):
        BatchOptions(max_rows=0)


def test_bfloat16_is_served_as_bits(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    path, x = tmp_path / "m.burnish", torch.tensor([[1.5, -3]], dtype=torch.bfloat16)
    burnish.compile(Twice(), (x,), dynamic_shapes=({0: "batch"},), threads=1).save(path)

    async def main() -> Any:
        models = Repository({"m": path}, threads=1)
        models.prepare()
        await models.load_all()
        assert models["m"].is_batched
        found = await models["m"].infer((x.view(torch.uint16).numpy(),))
        await models.close()
        return found["output_0"]

    found = torch.from_numpy(asyncio.run(main())).view(torch.bfloat16)
    assert torch.equal(found, x * 2)


def test_what_is_prepared_is_loaded_once(dynamic: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.burnish"
    dynamic.save(path)

    async def main() -> None:
        models = Repository({"m": path}, threads=1)
        models.prepare()
        path.rename(tmp_path / "old")
        await models.load_all()
        with pytest.raises(ArtifactError, match="No such file"):
            await models.load("m")
        with pytest.raises(ArtifactError, match="No such file"):
            Repository({"m": path}).prepare()
        await models.close()

    asyncio.run(main())
