"""Adapters as `peft` reports them go through a server as they are."""

import numpy as np
import pytest

import fedmerit


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_state_dicts_of_peft_are_settled_as_they_come(name):
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    kind = getattr(torch, name)
    torch.manual_seed(0)
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 16}
    frozen = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    lora = peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)
    adapters = peft.get_peft_model_state_dict(peft.get_peft_model(frozen, lora))
    draw = torch.Generator().manual_seed(1)

    def noise():
        return {n: 0.05 * torch.randn(v.shape, generator=draw) for n, v in adapters.items()}

    with fedmerit.Server({n: v.to(kind) for n, v in adapters.items()}, seed=0) as server:
        for _ in range(3):
            now = {n: torch.from_numpy(v.astype(np.float32)) for n, v in server.model.items()}
            shared, sent = noise(), {}
            for client in ("rider", "ann", "bob", "cai", "dee", "eve"):
                own = noise()
                work = {n: own[n] + (0 if client == "rider" else shared[n]) for n in own}
                sent[client] = {n: (now[n] + work[n]).to(kind) for n in now}
            result = server.settle(sent)
    assert set(server.model) == set(adapters)
    assert result.weights["rider"] == 0
    assert result.flags["rider"].accuses
    assert {result.weights[client] for client in ("ann", "bob", "cai", "dee", "eve")} == {0.2}
