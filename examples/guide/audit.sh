# Snippets of docs/cli.md and docs/guides/audit.md, on the files that record.py writes.
# --8<-- [start:audit]
samebits audit step.safetensors step.logp.safetensors          # by the fastest backend
samebits audit step.safetensors step.logp.safetensors --twin   # by the scalar twin, which shares no kernel with it
samebits audit hidden.safetensors logp.safetensors --weight checkpoint/ --progress
samebits audit hidden.safetensors logp.safetensors --weight rank0.safetensors --weight rank1.safetensors
# --8<-- [end:audit]

# --8<-- [start:logp]
samebits logp step.safetensors -o again.safetensors --temperature 0.7 --lse --entropy
samebits logp logits.npy targets.npy --ignore-index -100 -o npy.safetensors
samebits logp hidden.safetensors logp.safetensors --weight checkpoint/ -o head.safetensors
# --8<-- [end:logp]

# --8<-- [start:nemotron]
samebits audit hidden.safetensors logp.safetensors --weight checkpoint/
# --8<-- [end:nemotron]
