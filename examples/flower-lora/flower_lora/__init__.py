"""LoRA adapters of a tiny transformer in Flower, with contributions by fedmerit."""
