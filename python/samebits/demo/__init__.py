"""The main job on real input: sample from a language model as a rollout engine does, recompute the log-probs
as a trainer does, and count the bits that differ. Run it with `python -m samebits.demo`."""
