#!/usr/bin/env python3
"""Writes tests/golden/lora: adapters for models of tests/golden/families, and PEFT's results with them.

Needs torch, transformers, peft and safetensors; run from the repository root. Arguments are names of cases: then
only these are written. A case is an adapter's directory as PEFT saves it (with a B that is not zero), and
expected.safetensors:

  tokens, targets      [STEPS, 2, 20]
  logits, loss         of step 1
  gradients/NAME       of every adapter tensor in step 1, under the name that adapter_model.safetensors has
  losses               of STEPS steps of AdamW on the adapters alone
  trained/NAME         the adapters after that
  merged/NAME          the tensors of the base model that merge_and_unload() changes

Everything is fp32 on the CPU, one thread, eager attention, no dropout.
"""

import copy
import json
import os
import shutil
import sys

import peft
import torch
import transformers
from peft.utils import get_peft_model_state_dict
from peft.utils import transformers_weight_conversion as conversion
from safetensors.torch import save_file
from torch.nn import functional

sys.path.insert(0, "tests/golden")
import expert_cases  # noqa: E402

BASES, OUT = "tests/golden/families", "tests/golden/lora"
SEQUENCES, TOKENS, STEPS = 2, 20, 8
IGNORED = -100
SEEDS = 40
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]

# name: (base model, arguments of LoraConfig)
CASES = {
    "llama_all": ("llama_untied_llama3", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "llama_biases_some": ("llama_biases_linear_head_dim", dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "up_proj"])),
    "qwen3_all": ("qwen3_tied_head_dim", dict(r=5, lora_alpha=10, target_modules="all-linear")),
    "qwen3_some": ("qwen3_untied", dict(r=2, lora_alpha=1, target_modules=["k_proj", "o_proj", "down_proj"])),
    "gpt2_all": ("gpt2_inner", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "gpt2_some": ("gpt2_plain", dict(r=3, lora_alpha=7, target_modules=["c_fc"], fan_in_fan_out=True)),
    "qwen2_rslora": ("qwen2_untied", dict(r=3, lora_alpha=4, target_modules=["q_proj", "o_proj", "gate_proj"], use_rslora=True)),
    "gpt2_rslora": ("gpt2_inner", dict(r=5, lora_alpha=3, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, use_rslora=True)),
    # Adapters that differ between layers, or in rank or alpha.
    "llama_layers": ("llama_untied_llama3", dict(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"],
                                                 layers_to_transform=[1])),
    "qwen3_paths": ("qwen3_untied", dict(r=2, lora_alpha=5,
                                         target_modules=["model.layers.0.self_attn.k_proj", "model.layers.1.mlp.up_proj", "v_proj"])),
    "gpt2_regex": ("gpt2_inner", dict(r=3, lora_alpha=4, target_modules=r".*\.h\.1\..*c_(attn|fc)", fan_in_fan_out=True)),
    "qwen2_patterns": ("qwen2_untied", dict(r=3, lora_alpha=4, target_modules=["q_proj", "o_proj", "gate_proj"], use_rslora=True,
                                            exclude_modules=["model.layers.0.self_attn.o_proj"],
                                            rank_pattern={"q_proj": 2, "model.layers.1.mlp.gate_proj": 5},
                                            alpha_pattern={"o_proj": 9, r"layers\.0\..*gate_proj": 2})),
    # Models with experts. PEFT gives the matrices of all experts of a layer one adapter, with rank r per expert.
    "qwen3_moe_parameters": ("qwen3_moe_untied", dict(r=2, lora_alpha=4, target_modules=["q_proj"],
                                                      target_parameters=EXPERTS + ["mlp.gate.weight"])),
    # PEFT turns these names, of transformers 4, into parameters: gate_up_proj gets twice the rank.
    "mixtral_names": ("mixtral_untied", dict(r=2, lora_alpha=3, target_modules=["w1", "w2", "w3", "gate", "o_proj"],
                                             use_rslora=True)),
    "gpt_oss_ranks": ("gpt_oss_untied", dict(r=4, lora_alpha=8, target_modules=["v_proj"],
                                             target_parameters=EXPERTS + ["mlp.router.weight"],
                                             rank_pattern={".*.experts.down_proj": 1, ".*.experts.gate_up_proj": 3},
                                             alpha_pattern={".*.experts.down_proj": 5})),
    # One parameter of one layer.
    "gpt_oss_one": ("gpt_oss_tied_full", dict(r=3, lora_alpha=2, target_modules=["o_proj"],
                                               target_parameters=["1.mlp.experts.down_proj"])),
    # Beside target_parameters, modules' names stand for linear layers of transformers 5: dense and shared MLPs.
    "deepseek_v3_shared": ("deepseek_v3_untied", dict(r=2, lora_alpha=4,
                                                      target_modules=["gate_proj", "up_proj", "down_proj", "kv_b_proj"],
                                                      target_parameters=EXPERTS + ["mlp.gate.weight"])),
    # Adapters of single experts, as PEFT wrote them for transformers 4.
    "qwen3_moe_singles": ("qwen3_moe_joined", dict(r=3, lora_alpha=6,
                                                   target_modules=["gate_proj", "up_proj", "down_proj", "gate"])),
    "mixtral_singles": ("mixtral_all", dict(r=2, lora_alpha=6, target_modules=["w1", "w2", "w3", "gate", "k_proj"])),
    # Experts beside a dense MLP, and the layer's end.
    "gemma4_branches": ("gemma4_experts_inputs", dict(r=3, lora_alpha=3,
                                                      target_modules=["q_proj", "down_proj", "per_layer_input_gate",
                                                                      "per_layer_projection"],
                                                      target_parameters=["experts.gate_up_proj", "experts.down_proj",
                                                                         "router.proj.weight"])),
}
SINGLES = ("qwen3_moe_singles", "mixtral_singles")


def make_batches(vocabulary):
    start = torch.randint(vocabulary, (STEPS, SEQUENCES, 1))
    text = (start + 5 * torch.arange(TOKENS + 1)) % vocabulary
    text = torch.where(torch.rand(text.shape) < 0.2, torch.randint(vocabulary, text.shape), text)
    tokens, targets = text[..., :-1].clone(), text[..., 1:].clone()
    targets[:, 0, :3] = IGNORED
    return tokens, targets


def forward(model, tokens, targets):
    logits = model(tokens).logits
    return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def adapter_tensors(model, of):
    """Returns `of` each trained parameter, by its name in adapter_model.safetensors."""
    values = {name: of(p) for name, p in model.named_parameters() if p.requires_grad}
    return {name.replace(".default.", "."): value.detach().clone().contiguous() for name, value in values.items()}


def train(model, tokens, targets):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        _, loss = forward(model, tokens[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return torch.tensor(losses, dtype=torch.float64)


class Singles:
    """Adapters of single experts: their file, and their parts in the parameters that PEFT makes of them on loading."""

    def __init__(self, config, options):
        self.r, self.options = options["r"], options
        self.experts, self.inner = config.num_local_experts, getattr(config, "moe_intermediate_size", config.intermediate_size)
        self.is_mixtral = config.model_type == "mixtral"
        self.names = ("w1", "w3", "w2") if self.is_mixtral else ("gate_proj", "up_proj", "down_proj")

    def own_name(self, name):
        return name.replace(".mlp.", ".block_sparse_moe.") if self.is_mixtral else name

    def split(self, name, tensor):
        """Returns the tensors of single experts that are parts of one of PEFT's."""
        if ".mlp.experts." not in name:
            return {self.own_name(name): tensor}
        prefix, kind = self.own_name(name[: name.index(".mlp.experts.")] + ".mlp.experts"), name[-len("lora_A.weight"):]
        is_a, is_down = kind == "lora_A.weight", ".base_layer." not in name
        per = (tensor.reshape(self.experts, -1, tensor.shape[1]) if is_a
               else tensor.reshape(tensor.shape[0], -1, self.experts).permute(2, 0, 1))
        gate, up, down = self.names
        parts = {down: per} if is_down else {
            gate: per[:, : self.r] if is_a else per[:, : self.inner, : self.r],
            up: per[:, self.r:] if is_a else per[:, self.inner:, self.r:]}
        return {f"{prefix}.{e}.{matrix}.{kind}": part[e].clone().contiguous()
                for matrix, part in parts.items() for e in range(self.experts)}

    def split_all(self, tensors):
        return {k: v for name, tensor in tensors.items() for k, v in self.split(name, tensor).items()}

    def mask(self, model):
        """Keeps the parts of gate's and up's B that belong to the other zero: they do not exist in single adapters."""
        for name, parameter in model.named_parameters():
            if ".base_layer.lora_B." in name:
                mask = torch.zeros(2 * self.inner, 2 * self.r, self.experts)
                mask[: self.inner, : self.r], mask[self.inner:, self.r:] = 1, 1
                parameter.register_hook(lambda g, mask=mask.reshape(parameter.shape): g * mask)

    def open(self, plain, directory):
        """Writes an adapter, and returns the model that PEFT loads it into."""
        model = peft.get_peft_model(copy.deepcopy(plain), peft.LoraConfig(task_type="CAUSAL_LM", **self.options))
        tensors = self.split_all(adapter_tensors(model, lambda p: 0.2 * torch.randn_like(p)))
        os.makedirs(directory)
        save_file(tensors, f"{directory}/adapter_model.safetensors", metadata={"format": "pt"})
        with open(f"{directory}/adapter_config.json", "w") as file:
            json.dump(dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path=plain.name_or_path, bias="none",
                           fan_in_fan_out=False, lora_dropout=0.0, use_rslora=False, **self.options), file, indent=2)
        model = peft.PeftModel.from_pretrained(plain, directory, is_trainable=True)
        self.mask(model)
        return model


# PEFT 0.21 takes gate_proj ... of these families for experts' names of transformers 4, whatever else has these names.
TO_PARAMETERS = conversion.convert_peft_config_for_transformers


def keep_modules(name):
    keeps = name == "deepseek_v3_shared"
    conversion.convert_peft_config_for_transformers = (lambda *_, **__: None) if keeps else TO_PARAMETERS


def make_model(plain, options, directory, singles):
    shutil.rmtree(directory, ignore_errors=True)
    if singles is not None:
        return singles.open(plain, directory)
    model = peft.get_peft_model(plain, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(directory)
    os.remove(f"{directory}/README.md")
    return model


def write_case(name, base, options):
    more = dict(experts_implementation="eager") if any(kind in base for kind in ("moe", "mixtral", "gpt_oss", "deepseek", "experts")) else {}
    plain = transformers.AutoModelForCausalLM.from_pretrained(f"{BASES}/{base}", attn_implementation="eager", dtype=torch.float32, **more)
    margins = expert_cases.Margins(plain)
    tokens, targets = make_batches(plain.config.vocab_size)
    before = {k: v.clone() for k, v in plain.state_dict().items()}
    singles = Singles(plain.config, options) if name in SINGLES else None
    own_names = singles.split_all if singles else lambda tensors: tensors
    keep_modules(name)
    directory = f"{OUT}/{name}"
    model = make_model(plain, options, directory, singles).train()

    out = {"tokens": tokens.int(), "targets": targets.int()}
    logits, loss = forward(model, tokens[0], targets[0])
    loss.backward()
    out["logits"], out["loss"] = logits.detach().clone(), loss.detach().double().reshape(1)
    gradients = adapter_tensors(model, lambda p: p.grad)
    assert set(gradients) == set(get_peft_model_state_dict(model)), name
    out.update({f"gradients/{k}": v for k, v in own_names(gradients).items()})
    margins.logits.clear()  # tensors of a graph cannot be copied
    merged = copy.deepcopy(model).merge_and_unload().state_dict()
    kind = type(plain).__name__.removesuffix("ForCausalLM")
    for k, v in merged.items():
        if not torch.equal(v, before[k]):
            out.update({f"merged/{file}": part.clone()
                        for file, part in expert_cases.names_in_files(k, v, kind, "joined" in base).items()})
    out["losses"] = train(model, tokens, targets)
    out.update({f"trained/{k}": v for k, v in own_names(adapter_tensors(model, lambda p: p.data)).items()})
    if not margins.are_wide(is_curve=True):
        return False
    print(name, [round(float(x), 3) for x in out["losses"]])
    save_file(out, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__))
    return True


def main():
    torch.set_num_threads(1)
    for number, (name, (base, options)) in enumerate(CASES.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for seed in range(SEEDS):  # choices of experts far from ties, as in expert_cases.py
            torch.manual_seed(2000 + number + 100 * seed)
            if write_case(name, base, options):
                break
        else:
            raise SystemExit(f"{name}: no seed of {SEEDS} has choices far from ties")


if __name__ == "__main__":
    main()
