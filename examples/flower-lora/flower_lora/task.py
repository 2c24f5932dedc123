"""What clients and server share: the model with its adapters, and who holds what text."""

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft import set_peft_model_state_dict as set_adapters
from transformers import GPT2Config, GPT2LMHeadModel

LETTERS, LENGTH, SENTENCES = 32, 24, 48


def new_model(rank: int) -> PeftModel:
    """Return the frozen transformer with adapters; the same for everybody."""
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    sizes = {"n_positions": LENGTH, "n_embd": 32, "n_layer": 1, "n_head": 2}
    base = GPT2LMHeadModel(GPT2Config(vocab_size=LETTERS, loss_type="ForCausalLM", **sizes, **ends))
    adapters = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=["c_attn", "c_proj"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, adapters)


def adapters_of(model: PeftModel) -> dict[str, torch.Tensor]:
    """Return what travels: the adapters, by PEFT's names."""
    return get_peft_model_state_dict(model)


def sentences(part: int) -> torch.Tensor:
    """Return a client's own text: everybody speaks the same language, and says other things."""
    language = np.random.default_rng(0).dirichlet(np.full(LETTERS, 0.1), size=LETTERS)
    ladder = language.cumsum(axis=1)
    rng = np.random.default_rng([1, part])
    text = np.zeros((SENTENCES, LENGTH), dtype=np.int64)
    text[:, 0] = rng.integers(LETTERS, size=SENTENCES)
    for place in range(1, LENGTH):
        drawn = rng.random(SENTENCES)[:, None]
        text[:, place] = (ladder[text[:, place - 1]] < drawn).sum(axis=1).clip(max=LETTERS - 1)
    return torch.from_numpy(text)


def train(model: PeftModel, text: torch.Tensor, steps: int, rate: float) -> float:
    """Train the adapters and return the last loss."""
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate)
    loss = torch.zeros(())
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(input_ids=text, labels=text).loss
        loss.backward()
        optimiser.step()
    return float(loss.detach())


def loss_of(model: PeftModel, text: torch.Tensor) -> float:
    """Return the loss on text."""
    model.eval()
    with torch.no_grad():
        return float(model(input_ids=text, labels=text).loss)


__all__ = ["adapters_of", "loss_of", "new_model", "sentences", "set_adapters", "train"]
