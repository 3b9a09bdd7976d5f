"""GPU evidence: what ran on a device, recorded so that any CPU can check it.

`python -m evidence` (tools/ on PYTHONPATH; `make gpu-evidence` does it) writes evidence/<device>/*.json on a
machine with an NVIDIA GPU. tests/python/test_evidence.py computes the recorded sample rows again on the CPU,
from inputs that are made of integers alone, and compares bits.
"""
