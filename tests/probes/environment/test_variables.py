"""Variables that change what a GPU stack does: those of the row alone are told."""

from __future__ import annotations

from tests.told import ToldHost, load

PROBE = load("environment/variables.py")["probe"]
ROW = {"variables": ["HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES"]}


def test_only_those_that_are_set_and_asked_after_are_told() -> None:
    host = ToldHost(environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "", "TOKEN": "x"}, row=ROW)
    assert PROBE(host) == {"variables": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}
    assert PROBE(ToldHost(row=ROW)) is None


def test_what_nccl_conf_says_for_every_program_is_told_but_for_what_is_not_nccl() -> None:
    row = {"variables": ["NCCL_IB_HCA", "NCCL_DEBUG", "LD_PRELOAD"]}
    conf = "# site\nNCCL_IB_HCA=mlx5_0,mlx5_1\n NCCL_DEBUG=WARN trailing\nLD_PRELOAD=/evil.so\nNCCL_TOKEN=x\nnonsense\n"
    host = ToldHost(files={"/etc/nccl.conf": conf}, row=row)
    assert PROBE(host) == {"nccl_conf": {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "WARN"}}
