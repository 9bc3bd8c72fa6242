#!/usr/bin/env python3
"""Writes tests/golden/objectives: the losses of TRL for pairs, answers and rollouts, their metrics and gradients.

Needs torch, transformers, trl and safetensors; run from the repository root, with tests/golden/families in place.
A folder per family has expected.safetensors: `tokens` I32 [2 P, T], the chosen sequences and then the rejected ones,
each of `lengths` tokens, of which `prompts` come before the completion; `references` F32 [2 P, T], the log-probability
of each token by a reference model; `margins` F32 [P]; `verdicts` F32 [2 P], 1 for a desirable answer and -1 for another;
`mismatched` I32 [2 P, 2 T], each prompt with the completion of the sequence before it, `mismatched_lengths`, and
`mismatched_references`; `advantages` F32 [2 P] and `old_logps` F32 [2 P, T] of rollouts; and for each case its options
in the metadata, `CASE/loss` F64, `CASE/metrics/NAME` F64 and `CASE/gradients/TENSOR`. `CASE/accumulated/...` is the same
of a step of four micro-batches, with a pair each: 0, 1, 2, 0. Cases of `ALL` have the gradients of every tensor, the
others that of the final norm. Reward models are directories as save_pretrained() writes them. fp32, eager attention, one thread.
"""

import collections
import json
import os
import shutil
import sys
import types

import torch
import transformers
import trl
from safetensors.torch import save_file
from trl import DPOTrainer, GRPOTrainer, KTOTrainer, RewardTrainer, RLOOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

OUT = "tests/golden/objectives"
FAMILIES = ("llama_tied", "qwen3_untied", "gemma2_tied")
T, PAD = 14, 0
LENGTHS, PROMPTS = (14, 9, 5, 11, 12, 8), (6, 4, 1, 6, 4, 1)  # chosen, then rejected
PAIRS = len(LENGTHS) // 2
MICRO_BATCHES = 4
ALL = ("dpo_sigmoid", "dpo_mpo", "orpo", "cpo_ipo", "simpo", "reward", "kto", "grpo_dapo", "grpo_gspo", "rloo")
DPO_LOSSES = ("sigmoid", "hinge", "ipo", "sigmoid_norm", "robust", "exo_pair", "nca_pair", "bco_pair", "sppo_hard",
              "apo_zero", "apo_down", "discopop")
COMPARING = ("sigmoid", "hinge", "ipo", "sigmoid_norm", "robust", "exo_pair", "discopop")


def cases():
    for loss in DPO_LOSSES:
        smoothed = {"label_smoothing": 0.1} if loss in ("robust", "exo_pair") else {}
        yield f"dpo_{loss}", {"type": "dpo", "beta": 0.3, "loss_type": [loss], **smoothed}
    yield "dpo_mpo", {"type": "dpo", "beta": 0.2, "loss_type": ["sigmoid", "bco_pair", "sft"],
                      "loss_weights": [0.8, 0.2, 1.0]}
    for divergence in ("forward_kl", "js_divergence", "alpha_divergence"):
        for loss in COMPARING if divergence == "js_divergence" else ("sigmoid", "ipo"):
            smoothed = {"label_smoothing": 0.1} if loss in ("robust", "exo_pair") else {}
            yield f"dpo_{divergence}_{loss}", {"type": "dpo", "beta": 0.3, "loss_type": [loss], **smoothed,
                                               "f_divergence_type": divergence, "f_alpha_divergence_coef": 0.7}
    yield "dpo_ld", {"type": "dpo", "beta": 0.3, "loss_type": ["sigmoid", "sft"], "ld_alpha": 0.4}
    yield "dpo_wpo", {"type": "dpo", "beta": 0.3, "loss_type": ["sigmoid", "ipo"], "use_weighting": True}
    yield "orpo", {"type": "orpo", "beta": 0.4}
    for loss in ("sigmoid", "hinge", "ipo", "simpo"):
        smoothed = {"label_smoothing": 0.1} if loss in ("sigmoid", "simpo") else {}
        yield f"cpo_{loss}", {"type": "cpo", "beta": 0.5, "loss_type": [loss], "cpo_alpha": 0.7, **smoothed}
    yield "cpo_alpha", {"type": "cpo", "beta": 0.5, "loss_type": ["sigmoid"], "cpo_alpha": 0.7, "alpha": 0.02}
    yield "simpo", {"type": "simpo", "beta": 2.0, "simpo_gamma": 1.1}
    yield "simpo_alpha", {"type": "simpo", "beta": 2.0, "simpo_gamma": 1.1, "alpha": 0.25}
    yield "kto", {"type": "kto", "beta": 0.3, "desirable_weight": 1.3, "undesirable_weight": 0.8}
    yield "kto_apo", {"type": "kto", "beta": 0.3, "loss_type": ["apo_zero_unpaired"]}
    for loss in ("dapo", "grpo", "bnpo", "dr_grpo", "cispo", "luspo", "sapo"):
        yield f"grpo_{loss}", {"type": "grpo", "loss_type": [loss], "epsilon": 0.1, "epsilon_high": 0.25,
                               "max_completion_length": 9}
    yield "grpo_kl", {"type": "grpo", "loss_type": ["grpo"], "beta": 0.04, "delta": 1.3}
    yield "grpo_plain_kl", {"type": "grpo", "loss_type": ["dapo"], "beta": 0.04, "use_bias_correction_kl": False}
    yield "grpo_gspo", {"type": "grpo", "loss_type": ["grpo"], "beta": 0.02, "epsilon": 0.03, "epsilon_high": 0.05,
                        "importance_sampling_level": "sequence"}
    yield "rloo", {"type": "rloo", "epsilon": 0.4, "epsilon_high": 0.7}


class Accelerator:
    device = torch.device("cpu")

    def gather(self, x):
        return x

    gather_for_metrics = gather
    num_processes = 1

    def reduce(self, x, reduction):
        return x


def fake_trainer(**fields):
    return types.SimpleNamespace(accelerator=Accelerator(), _metrics={"train": collections.defaultdict(list)},
                                 _total_train_tokens=0, _tp_size=1, aux_loss_enabled=False, **fields)


def metrics_of(trainer):
    return {name: values[-1] for name, values in trainer._metrics["train"].items()}


def outputs_of(logits, tokens, mask):
    """What TRL's fused head gives of each token."""
    all_logps = torch.log_softmax(logits[:, :-1], -1)
    p = all_logps.exp()
    return types.SimpleNamespace(log_probs=logps_of(logits, tokens) * mask[:, 1:], entropy=-(p * all_logps).sum(-1).detach(),
                                 mean_logits=logits[:, :-1].mean(-1).detach(), log_sum_sq_probs=(p * p).sum(-1).log(),
                                 is_top1=logits[:, :-1].argmax(-1) == tokens[:, 1:])


def of_tokens(outputs, mask):
    """DPOTrainer's metrics of tokens, for trainers of pairs that have others."""
    pairs, mask = len(mask) // 2, mask[:, 1:].bool()
    return {"mean_token_accuracy": outputs.is_top1[:pairs][mask[:pairs]].float().mean(),
            "entropy": outputs.entropy[mask].mean(), "logits/chosen": outputs.mean_logits[:pairs][mask[:pairs]].mean(),
            "logits/rejected": outputs.mean_logits[pairs:][mask[pairs:]].mean()}


def logps_of(logits, tokens):
    return torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]


def dpo(model, data, options):
    def fused(input_ids, attention_mask, **unused):
        return outputs_of(model(input_ids, attention_mask=attention_mask).logits, input_ids, mask)

    tokens, mask = data["tokens"], data["mask"]
    of_tail = torch.ones_like(data["references"])
    if "ld_alpha" in options:
        shared = mask.sum(1).reshape(2, -1).min(0).values.repeat(2)
        of_tail[mask.cumsum(1) > shared[:, None]] = options["ld_alpha"]
    references = (data["references"] * mask * of_tail)[:, 1:].sum(1)
    weights = options.get("loss_weights") or [1.0] * len(options["loss_type"])
    trainer = fake_trainer(model=model, ld_alpha=options.get("ld_alpha"), precompute_ref_logps=True,
                           f_divergence_type=options.get("f_divergence_type", "reverse_kl"),
                           f_alpha_divergence_coef=options.get("f_alpha_divergence_coef", 0.5), loss_types=options["loss_type"], loss_weights=weights, beta=options["beta"],
                           label_smoothing=options.get("label_smoothing", 0.0),
                           use_weighting=options.get("use_weighting", False),
                           args=types.SimpleNamespace(discopop_tau=0.05))
    inputs = {"input_ids": tokens, "attention_mask": data["attention"], "completion_mask": mask,
              "ref_chosen_logps": references[:len(tokens) // 2], "ref_rejected_logps": references[len(tokens) // 2:]}
    loss = DPOTrainer._compute_loss(trainer, fused, inputs, False)
    kept = ("rewards/", "logps/", "logits/", "entropy", "mean_token_accuracy")
    return loss, {n: v for n, v in metrics_of(trainer).items() if n.startswith(kept)}


def pair_metrics(chosen_rewards, rejected_rewards, chosen, rejected):
    return {"rewards/chosen": chosen_rewards.mean(), "rewards/rejected": rejected_rewards.mean(),
            "rewards/accuracies": (chosen_rewards > rejected_rewards).float().mean(),
            "rewards/margins": (chosen_rewards - rejected_rewards).mean(),
            "logps/chosen": chosen.mean(), "logps/rejected": rejected.mean()}


def nll(logits, labels):
    pairs = len(labels) // 2
    return torch.nn.functional.cross_entropy(logits[:pairs, :-1].flatten(0, 1), labels[:pairs, 1:].flatten())


def orpo(model, data, options):
    logits = model(data["tokens"], attention_mask=data["attention"]).logits
    labels = data["tokens"].masked_fill(data["mask"] == 0, -100)
    logps = ORPOTrainer.get_batch_logps(logits, labels, average_log_prob=True)
    trainer = fake_trainer(beta=options["beta"])
    chosen, rejected = logps.chunk(2)
    losses, rc, rr, ratio, odds = ORPOTrainer.odds_ratio_loss(trainer, chosen, rejected)
    whole = nll(logits, data["tokens"].masked_fill(data["attention"] == 0, -100))  # the prompt too, as ORPOTrainer
    metrics = {**pair_metrics(rc, rr, chosen, rejected),
               **of_tokens(outputs_of(logits, data["tokens"], data["mask"]), data["mask"])}
    return whole - losses.mean(), {**metrics, "nll_loss": whole, "log_odds_ratio": ratio, "log_odds_chosen": odds}


def cpo(model, data, options):
    simpo = options["type"] == "simpo"
    loss_type = "simpo" if simpo else options["loss_type"][0]
    logits = model(data["tokens"], attention_mask=data["attention"]).logits
    labels = data["tokens"].masked_fill(data["mask"] == 0, -100)
    logps = CPOTrainer.get_batch_logps(logits, labels, average_log_prob=loss_type in ("ipo", "simpo"))
    trainer = fake_trainer(beta=options["beta"], alpha=options.get("alpha", 0.0), loss_type=loss_type,
                           label_smoothing=options.get("label_smoothing", 0.0),
                           simpo_gamma=options.get("simpo_gamma", 0.5))
    chosen, rejected = logps.chunk(2)
    losses, rc, rr = CPOTrainer.cpo_loss(trainer, chosen, rejected)
    of_chosen = nll(logits, labels)
    metrics = {**pair_metrics(rc, rr, chosen, rejected),
               **of_tokens(outputs_of(logits, data["tokens"], data["mask"]), data["mask"])}
    if simpo:
        return losses.mean(), metrics
    return losses.mean() + options["cpo_alpha"] * of_chosen, {**metrics, "nll_loss": of_chosen}


def reward(model, data, options):
    trainer = fake_trainer(model=model, args=types.SimpleNamespace(
        center_rewards_coefficient=options["center_rewards_coefficient"]))
    inputs = {"input_ids": data["tokens"], "attention_mask": data["attention"], "margin": data["margins"]}
    loss = RewardTrainer.compute_loss(trainer, model, inputs)
    kept = ("accuracy", "margin", "mean_reward")
    return loss, {n: v for n, v in metrics_of(trainer).items() if n in kept}


def kto(model, data, options):
    def fused(input_ids, attention_mask, labels, **unused):
        return outputs_of(model(input_ids, attention_mask=attention_mask).logits, input_ids, labels != -100)

    loss_type = options.get("loss_type", ["kto"])[0]
    mask, other = data["mask"], data["mismatched_mask"]
    trainer = fake_trainer(model=model, precompute_ref_logps=True, calculate_KL=loss_type == "kto", loss_type=loss_type,
                           beta=options["beta"], desirable_weight=options.get("desirable_weight", 1.0),
                           undesirable_weight=options.get("undesirable_weight", 1.0))
    trainer._compute_kl_logps = types.MethodType(KTOTrainer._compute_kl_logps, trainer)
    inputs = {"input_ids": data["tokens"], "attention_mask": data["attention"], "completion_mask": mask,
              "label": data["verdicts"] > 0, "ref_logps": (data["references"] * mask)[:, 1:].sum(1),
              "KL_input_ids": data["mismatched"], "KL_attention_mask": data["mismatched_attention"],
              "KL_completion_mask": other, "ref_KL_logps": (data["mismatched_references"] * other)[:, 1:].sum(1)}
    loss = KTOTrainer._compute_loss(trainer, fused, inputs, False)
    kept = ("rewards/", "logps/", "kl", "logits/", "entropy")
    return loss, {n: v for n, v in metrics_of(trainer).items() if n.startswith(kept)}


def rollouts(model, data, options):
    def logps(*unused, **options):
        outputs = outputs_of(model(data["tokens"], attention_mask=data["attention"]).logits, data["tokens"], data["mask"])
        return outputs.log_probs, outputs.entropy, None

    mask, micro_batches = data["mask"][:, 1:], data.get("micro_batches", 1)
    epsilon = options.get("epsilon", 0.2)
    trainer = fake_trainer(
        model=model, epsilon_low=epsilon, epsilon_high=options.get("epsilon_high", epsilon), beta=options.get("beta", 0.0),
        loss_type=options.get("loss_type", [""])[0], max_completion_length=options.get("max_completion_length"),
        importance_sampling_level=options.get("importance_sampling_level", "token"), top_entropy_quantile=1.0,
        off_policy_mask_threshold=None, use_vllm=False, current_gradient_accumulation_steps=micro_batches,
        _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=logps,
        args=types.SimpleNamespace(delta=options.get("delta"), steps_per_generation=micro_batches,
                                   sapo_temperature_pos=options.get("sapo_temperature_pos", 1.0),
                                   sapo_temperature_neg=options.get("sapo_temperature_neg", 1.05),
                                   use_bias_correction_kl=options.get("use_bias_correction_kl", True)))
    old = data["old_logps"][:, 1:]
    inputs = {"prompt_ids": data["tokens"][:, :1], "prompt_mask": data["attention"][:, :1],
              "completion_ids": data["tokens"][:, 1:], "completion_mask": mask, "advantages": data["advantages"],
              "old_per_token_logps": old, "old_logps": (old * mask).sum(1), "num_items_in_batch": data.get("num_items", mask.sum()),
              "ref_per_token_logps": data["references"][:, 1:]}
    of = GRPOTrainer if options["type"] == "grpo" else RLOOTrainer
    loss = of._compute_loss(trainer, model, inputs)
    kept = ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "entropy")
    metrics = {n: v for n, v in metrics_of(trainer).items() if n in kept}
    return loss, {"kl": 0.0, "completions/mean_length": mask.sum() / len(mask), **metrics}


RUN = {"dpo": dpo, "orpo": orpo, "cpo": cpo, "simpo": cpo, "reward": reward, "kto": kto, "grpo": rollouts,
       "rloo": rollouts}


def mismatched(data):
    """Each prompt with the completion of the sequence before it."""
    tokens = torch.full((2 * PAIRS, 2 * T), PAD)
    attention, mask = torch.zeros(2 * PAIRS, 2 * T, dtype=torch.long), torch.zeros(2 * PAIRS, 2 * T, dtype=torch.long)
    lengths = []
    for row, prompt in enumerate(PROMPTS):
        completion = data["tokens"][row - 1, PROMPTS[row - 1]:LENGTHS[row - 1]]
        lengths.append(prompt + len(completion))
        tokens[row, :prompt] = data["tokens"][row, :prompt]
        tokens[row, prompt:lengths[-1]] = completion
        attention[row, :lengths[-1]] = 1
        mask[row, prompt:lengths[-1]] = 1
    return {"mismatched": tokens, "mismatched_attention": attention, "mismatched_mask": mask,
            "mismatched_lengths": torch.tensor(lengths)}


def answers_and_rollouts(model, data):
    """What KTO and GRPO need beside the pairs' data."""
    data.update(mismatched(data), verdicts=torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]),
                advantages=torch.tensor([0.9, -1.3, 0.4, -0.2, 1.1, -0.9]))
    with torch.no_grad():
        logps, others = (logps_of(model(data[t], attention_mask=data[a]).logits, data[t])
                         for t, a in (("tokens", "attention"), ("mismatched", "mismatched_attention")))
    data["old_logps"] = torch.zeros(2 * PAIRS, T)
    data["old_logps"][:, 1:] = logps + 0.4 * torch.randn_like(logps)
    data["mismatched_references"] = torch.zeros(2 * PAIRS, 2 * T)  # below the policy's, so that kl is above 0
    data["mismatched_references"][:, 1:] = others - 0.3 * torch.rand_like(others)


def data_for(vocabulary):
    tokens = torch.full((2 * PAIRS, T), PAD)
    attention, mask = torch.zeros(2 * PAIRS, T, dtype=torch.long), torch.zeros(2 * PAIRS, T, dtype=torch.long)
    for row, (length, prompt) in enumerate(zip(LENGTHS, PROMPTS)):
        tokens[row, :length] = torch.randint(1, vocabulary, (length,))
        if row >= PAIRS:
            tokens[row, :prompt] = tokens[row - PAIRS, :prompt]
        attention[row, :length] = 1
        mask[row, prompt:length] = 1
    return {"tokens": tokens, "attention": attention, "mask": mask, "references": -4 * torch.rand(2 * PAIRS, T),
            "margins": torch.tensor([0.0, 0.5, 1.25])}


def keep_step(out, name, place, loss, model):
    out[f"{place}/loss"] = loss.detach().double().reshape(1)
    for tensor, parameter in model.named_parameters():
        if name in ALL or tensor == "model.norm.weight":
            out[f"{place}/gradients/{tensor}"] = parameter.grad.clone()


def micro_batches(data):
    parts = []
    for k in range(MICRO_BATCHES):
        pair = k % PAIRS
        rows = {n: v[[pair, PAIRS + pair]] for n, v in data.items() if v.shape[0] == 2 * PAIRS}
        parts.append({**rows, "margins": data["margins"][[pair]], "micro_batches": MICRO_BATCHES})
    items = sum(part["mask"][:, 1:].sum() for part in parts)
    return [{**part, "num_items": items} for part in parts]


def run_case(out, meta, name, model, data, options):
    model.zero_grad()
    loss, metrics = RUN[options["type"]](model, data, options)
    loss.backward()
    meta[name] = json.dumps(options)
    keep_step(out, name, name, loss, model)
    for metric, value in metrics.items():
        out[f"{name}/metrics/{metric}"] = torch.as_tensor(value).detach().double().reshape(1)
    model.zero_grad()
    # GRPOTrainer divides by itself, the trainer of transformers for the others.
    share, total = 1 if options["type"] == "grpo" else 1 / MICRO_BATCHES, 0
    for part in micro_batches(data):
        loss = share * RUN[options["type"]](model, part, options)[0]
        loss.backward()
        total = total + loss.detach()
    keep_step(out, name, f"{name}/accumulated", total, model)


def write(directory, out, meta, data):
    os.makedirs(directory, exist_ok=True)
    out.update(tokens=data["tokens"].int(), lengths=torch.tensor(LENGTHS).int(), prompts=torch.tensor(PROMPTS).int(),
               references=data["references"], margins=data["margins"])
    more = ("verdicts", "mismatched", "mismatched_lengths", "mismatched_references", "advantages", "old_logps")
    out.update({name: data[name].int() if data[name].dtype == torch.long else data[name] for name in more if name in data})
    save_file(out, f"{directory}/expected.safetensors", metadata={
        "format": "pt", "torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__,
        **meta})


def main():
    torch.set_num_threads(1)
    for family in FAMILIES:
        torch.manual_seed(len(family))
        source = f"tests/golden/families/{family}"
        model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32,
                                                                  attn_implementation="eager").train()
        data, out, meta = data_for(model.config.vocab_size), {}, {}
        answers_and_rollouts(model, data)
        for name, options in cases():
            run_case(out, meta, name, model, data, options)
        write(f"{OUT}/{family}", out, meta, data)
    for family in FAMILIES:
        torch.manual_seed(7 + len(family))
        config = transformers.AutoConfig.from_pretrained(f"tests/golden/families/{family}", num_labels=1, pad_token_id=PAD)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForSequenceClassification.from_config(config).train()
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn_like(parameter)
                parameter.copy_(parameter + 0.1 * noise if parameter.ndim == 1 else 0.12 * noise)
        data, out, meta = data_for(config.vocab_size), {}, {}
        run_case(out, meta, "reward", model, data, {"type": "reward", "center_rewards_coefficient": 0.05})
        directory = f"{OUT}/reward_{family}"
        shutil.rmtree(directory, ignore_errors=True)
        model.save_pretrained(directory)
        write(directory, out, meta, data)
    print(f"wrote {OUT} with torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}",
          file=sys.stderr)


if __name__ == "__main__":
    main()
