python -c '
import torch; from safetensors.torch import save_file
save_file({"logits": torch.randn(4, 1000), "targets": torch.tensor([1, 10, 100, 999])}, "batch.safetensors")'

samebits info
samebits logp batch.safetensors --out logp.safetensors
samebits audit batch.safetensors logp.safetensors
