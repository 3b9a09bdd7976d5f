"""Profiles by Nsight Compute: what is read of its pages, and what is said to limit a kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from evidence import profiles

NAME = (
    "void samebits::cuda::sm90_product<samebits::cuda::Sm90Tile<samebits::order::BFloat16, (bool)0, (bool)1, "
    "(int)1, (int)192, (int)2>, samebits::cuda::AddIntegers>(CUtensorMap_st, CUtensorMap_st, T2)"
)
SHORT = "sm90_product<Sm90Tile<BFloat16, 0, 1, 1, 192, 2>, AddIntegers>"
COLUMNS = "ID,Kernel Name,Metric Name,Metric Unit,Metric Value,Rule Description"


def pages(
    name=NAME, duration=("1,234.5", "us"), issue="31.25", l2="48.07", rule=""
) -> tuple[list[str], list[str]]:
    """`details` and `raw` of one kernel."""
    metrics = [
        ("Duration", duration[1], duration[0]), ("SM Frequency", "Ghz", "1.35"),
        ("Issue Slots Busy", "%", issue), ("L1/TEX Cache Throughput", "%", "10"),
        ("L2 Cache Throughput", "%", l2), ("DRAM Throughput", "%", "32.96"),
    ]  # fmt: skip
    details = [COLUMNS, *(f'0,"{name}",{key},{unit},"{value}",' for key, unit, value in metrics)]
    if rule:
        details.append(f'0,"{name}",,,,"{rule}"')
    stalls = {"barrier": "1.0", "long_scoreboard": "3.0", "selected": "9.0"}
    keys = [f"smsp__average_warps_issue_stalled_{key}_per_issue_active.ratio" for key in stalls]
    raw = [",".join(["ID", *keys]), "," * len(keys), ",".join(["0", *stalls.values()])]
    return details, raw


@pytest.mark.parametrize(
    "name, short",
    [
        (NAME, SHORT),
        ("nvjet_sm90_tst_192x192_64x3_1x2_h_bz_coopB_NTN", "nvjet_sm90_tst_192x192_64x3_1x2_h_bz_coopB_NTN"),
        ("void samebits::cuda::logp_forward_tile<float, (bool)1, (bool)0>(samebits::core::LogpProblem, int)",
         "logp_forward_tile<float, 1, 0>"),
    ],
)  # fmt: skip
def test_names_are_short(name, short):
    assert profiles.short_name(name) == short


def test_pages_are_read():
    (one,) = profiles.parse(*pages())
    assert (one.name, one.microseconds, one.gigahertz, one.issue) == (SHORT, 1234.5, 1.35, 31.25)
    assert one.units == {"L1": 10.0, "L2": 48.07, "DRAM": 32.96}
    assert one.stalls == {"barrier": 1.0, "long_scoreboard": 3.0}


@pytest.mark.parametrize(
    "changed, limit",
    [
        ({}, "latency (long scoreboard 75%, barrier 25% of the waiting)"),
        ({"issue": "82"}, "issue slots 82%"),
        ({"l2": "91.2"}, "L2 91%"),
        ({"rule": "Tensor is the highest-utilized pipeline (93.1%) based on"}, "Tensor pipe 93%"),
    ],
)
def test_the_busiest_unit_limits_or_the_waiting_does(changed, limit):
    (one,) = profiles.parse(*pages(**changed))
    assert one.limit() == limit


def test_short_kernels_are_left_out():
    short, long = (
        profiles.parse(*pages(duration=("0.0004", "s"))),
        profiles.parse(*pages(duration=("900", "ns"))),
    )
    head, line = profiles.table(short + long)
    assert head.split()[:2] == ["us", "GHz"] and line.split()[0] == "400.0" and SHORT in line


def test_the_last_words_of_a_profiler_that_fails_are_told(monkeypatch, tmp_path):
    ended = subprocess.CompletedProcess([], 1, "", "==ERROR== ERR_NVGPUCTRPERM\n")
    monkeypatch.setattr(profiles.subprocess, "run", lambda *args, **kwargs: ended)
    with pytest.raises(RuntimeError, match="ERR_NVGPUCTRPERM"):
        profiles.profile(64, tmp_path)


def test_a_missing_profiler_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(profiles.shutil, "which", lambda name: str(tmp_path / "ncu"))
    with pytest.raises(RuntimeError, match="ncu"):
        profiles.profile(64, tmp_path)
