"""Cases of families with experts for make_families.py: their configs, their files, and the distance of every choice of
experts from a tie.

A choice that two programs make differently changes results by more than rounding. So seeds are searched whose choices,
in all batches of a case, are far from ties; a group or value at the limit of a clamp counts as a choice, too. At most
one expert of a layer is left unused in batch 0.
"""

import torch

from gemma4_cases import GEMMA4_EXPERT_CASES

TOKENS = 20
LINEAR = dict(rope_type="linear", rope_theta=1000000.0, factor=4.0)
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=8)
YARN_SCALES = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.8, mscale_all_dim=1.2,
                   original_max_position_embeddings=16)


def default(theta):
    return dict(rope_type="default", rope_theta=theta)


QWEN3 = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=14, norm_topk_prob=True, head_dim=8,
             rope_parameters=default(1000000.0))
MIXTRAL = dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=18, rope_parameters=default(10000.0))
GPT_OSS = dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=14, head_dim=8, rope_parameters=YARN,
               sliding_window=6)
DEEPSEEK = dict(num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=10,
                n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=9,
                qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, intermediate_size=28,
                rope_parameters=default(10000.0))
GLM4 = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, n_shared_experts=1, head_dim=8,
            first_k_dense_replace=1, use_qk_norm=True, attention_bias=True, routed_scaling_factor=1.5,
            rope_parameters=dict(default(1000000.0), partial_rotary_factor=0.5))
GLM4_LITE = dict(num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=10,
                 n_shared_experts=1, q_lora_rank=10, kv_lora_rank=9, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
                 rope_parameters=default(1000000.0), pad_token_id=None)
MINIMAX = dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=14, head_dim=8, pad_token_id=None,
               rope_parameters=dict(default(5000000.0), partial_rotary_factor=0.5))
# Layers with a gated delta rule, and every so many one with attention, whose heads have gates.
HYBRID = dict(head_dim=8, linear_conv_kernel_dim=4, linear_key_head_dim=12, linear_value_head_dim=10,
              linear_num_key_heads=2, linear_num_value_heads=4, num_hidden_layers=4,
              rope_parameters=dict(default(1000000.0), partial_rotary_factor=0.5))
HYBRID_EXPERTS = HYBRID | dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=14,
                               shared_expert_intermediate_size=26)
# Layers with Mamba-2. Nemotron-H's are a mixer or an MLP each; Granite 4's have both.
NEMOTRON = dict(head_dim=8, mamba_num_heads=6, mamba_head_dim=5, ssm_state_size=7, n_groups=2, time_step_min=0.05,
                n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=14, n_shared_experts=1,
                moe_shared_expert_intermediate_size=18, pad_token_id=None)
GRANITE_HYBRID = dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=14, shared_intermediate_size=18,
                      mamba_n_heads=6, mamba_d_head=8, mamba_expand=2, mamba_d_state=7, mamba_n_groups=2,
                      pad_token_id=None, attention_multiplier=0.3)
# Larger than usual factors make the losses of the router show in every gradient.
LOSSES = dict(output_router_logits=True, router_aux_loss_coef=0.05)

# name: (class, differences from SIZES, True if config.json is as transformers 4 wrote it)
EXPERT_CASES = {
    "qwen3_moe_tied_losses": ("Qwen3Moe", dict(QWEN3 | LOSSES, tie_word_embeddings=True), False),
    "qwen3_moe_untied": ("Qwen3Moe", dict(QWEN3, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, head_dim=6,
                                          num_key_value_heads=1, moe_intermediate_size=11), True),
    # Only the third of four layers has experts, and every token uses all of them.
    "qwen3_moe_all_dense_layers": ("Qwen3Moe", dict(QWEN3, num_experts=4, num_experts_per_tok=4, num_hidden_layers=4,
                                                    mlp_only_layers=[0, 1, 3], attention_bias=True,
                                                    rope_parameters=LINEAR), False),
    "qwen3_moe_one_yarn": ("Qwen3Moe", dict(QWEN3 | LOSSES, num_experts=5, num_experts_per_tok=1, norm_topk_prob=False,
                                            num_hidden_layers=4, decoder_sparse_step=2, rope_parameters=YARN_SCALES,
                                            use_sliding_window=True, sliding_window=7), False),
    # transformers does not know the second loss; write_case adds it.
    "qwen3_moe_two_losses": ("Qwen3Moe", dict(QWEN3 | LOSSES, router_z_loss_coef=0.02), False),
    "qwen3_moe_joined": ("Qwen3Moe", dict(QWEN3, num_experts=4, tie_word_embeddings=True), False),
    "mixtral_untied": ("Mixtral", dict(MIXTRAL, num_local_experts=8), False),
    "mixtral_tied_losses": ("Mixtral", dict(MIXTRAL | LOSSES, tie_word_embeddings=True, head_dim=10,
                                            num_key_value_heads=4), True),
    "mixtral_one_sliding": ("Mixtral", dict(MIXTRAL | LOSSES, num_local_experts=4, num_experts_per_tok=1,
                                            sliding_window=7), False),
    "mixtral_all": ("Mixtral", dict(MIXTRAL, num_local_experts=4, num_experts_per_tok=4, intermediate_size=11,
                                    num_key_value_heads=1, rope_parameters=LINEAR), True),
    "mixtral_joined": ("Mixtral", dict(MIXTRAL, num_local_experts=4), False),
    "gpt_oss_untied": ("GptOss", dict(GPT_OSS), False),
    "gpt_oss_tied_full": ("GptOss", dict(GPT_OSS, num_local_experts=6, num_experts_per_tok=3, tie_word_embeddings=True,
                                         attention_bias=False, layer_types=["full_attention"] * 2,
                                         rope_parameters=default(10000.0)), False),
    # Clamps a good part of the values.
    "gpt_oss_all_clamped": ("GptOss", dict(GPT_OSS, num_local_experts=4, num_experts_per_tok=4, num_hidden_layers=3,
                                           swiglu_limit=0.5, swiglu_alpha=1.3, num_key_value_heads=1), True),
    "gpt_oss_one_losses": ("GptOss", dict(GPT_OSS | LOSSES, num_local_experts=4, num_experts_per_tok=1,
                                          intermediate_size=9), False),
    "deepseek_v3_untied": ("DeepseekV3", dict(DEEPSEEK, num_hidden_layers=3), False),
    "deepseek_v3_queries_yarn": ("DeepseekV3", dict(DEEPSEEK, n_routed_experts=4, num_experts_per_tok=4, n_group=1,
                                                    topk_group=1, n_shared_experts=2, first_k_dense_replace=0,
                                                    q_lora_rank=10, norm_topk_prob=False, attention_bias=True,
                                                    tie_word_embeddings=True, rope_parameters=YARN_SCALES), True),
    "deepseek_v3_one_halves": ("DeepseekV3", dict(DEEPSEEK, n_routed_experts=6, num_experts_per_tok=1, n_group=2,
                                                  topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.7,
                                                  rope_interleave=False, q_lora_rank=7, v_head_dim=9,
                                                  qk_nope_head_dim=3), False),
    "deepseek_v3_joined": ("DeepseekV3", dict(DEEPSEEK, n_routed_experts=6, num_experts_per_tok=2, n_group=2,
                                              topk_group=1), False),
    "qwen3_next_untied": ("Qwen3Next", dict(HYBRID_EXPERTS, num_hidden_layers=2, full_attention_interval=2), False),
    # Layers 0 and 2 have dense MLPs; the shared expert is wider than the residual stream.
    "qwen3_next_dense_losses": ("Qwen3Next", dict(HYBRID_EXPERTS | LOSSES, mlp_only_layers=[0, 2],
                                                  full_attention_interval=2, linear_num_key_heads=1,
                                                  linear_num_value_heads=3, tie_word_embeddings=True,
                                                  attention_bias=True, norm_topk_prob=False), False),
    "qwen3_next_joined": ("Qwen3Next", dict(HYBRID_EXPERTS, num_experts=4, num_hidden_layers=3,
                                            full_attention_interval=3, linear_num_value_heads=2), False),
    "qwen3_5_moe_joined": ("Qwen3_5Moe", dict(HYBRID_EXPERTS, num_hidden_layers=2, full_attention_interval=2), False),
    "qwen3_5_moe_tied_losses_joined": ("Qwen3_5Moe", dict(HYBRID_EXPERTS | LOSSES, tie_word_embeddings=True,
                                                          num_hidden_layers=2, full_attention_interval=2,
                                                          head_dim=16, linear_conv_kernel_dim=2,
                                                          shared_expert_intermediate_size=9,
                                                          rope_parameters=dict(YARN_SCALES, partial_rotary_factor=0.25)),
                                       False),
    "qwen3_5_moe_odd_joined": ("Qwen3_5Moe", dict(HYBRID_EXPERTS, num_experts=5, num_experts_per_tok=3,
                                                  num_key_value_heads=1, num_hidden_layers=3,
                                                  full_attention_interval=2, linear_num_key_heads=3,
                                                  linear_num_value_heads=3), False),
    "glm4_moe_untied": ("Glm4Moe", dict(GLM4), False),
    # No norms of q and k and no biases; groups, and two dense layers.
    "glm4_moe_plain_groups": ("Glm4Moe", dict(GLM4, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
                                              num_hidden_layers=3, first_k_dense_replace=2, use_qk_norm=False,
                                              attention_bias=False, norm_topk_prob=False, tie_word_embeddings=True),
                              True),
    "glm4_moe_joined": ("Glm4Moe", dict(GLM4, n_routed_experts=4, n_shared_experts=2, head_dim=12, num_key_value_heads=1,
                                        first_k_dense_replace=0,
                                        rope_parameters=dict(LINEAR, partial_rotary_factor=1 / 3)), False),
    "glm4_moe_lite_untied": ("Glm4MoeLite", dict(GLM4_LITE), False),
    "glm4_moe_lite_dense_yarn": ("Glm4MoeLite", dict(GLM4_LITE, n_routed_experts=8, n_group=4, topk_group=2,
                                                     num_hidden_layers=3, mlp_layer_types=["dense", "dense", "sparse"],
                                                     q_lora_rank=None, n_shared_experts=2, attention_bias=True,
                                                     rope_parameters=YARN_SCALES), False),
    "glm4_moe_lite_joined": ("Glm4MoeLite", dict(GLM4_LITE, n_routed_experts=4, norm_topk_prob=False,
                                                 mlp_layer_types=["sparse"] * 2, rope_interleave=False, v_head_dim=9,
                                                 tie_word_embeddings=True), False),
    "minimax_m2_untied": ("MiniMaxM2", dict(MINIMAX), False),
    # A width of rotated columns in place of a share, as in published files.
    "minimax_m2_rotary_dim": ("MiniMaxM2", dict(MINIMAX, num_local_experts=8, num_experts_per_tok=3, head_dim=6,
                                                num_key_value_heads=1, tie_word_embeddings=True,
                                                rope_parameters=dict(default(10000.0), partial_rotary_factor=2 / 3)),
                              True),
    "minimax_m2_joined": ("MiniMaxM2", dict(MINIMAX, num_local_experts=4, num_experts_per_tok=4, head_dim=10,
                                            num_key_value_heads=4, intermediate_size=11,
                                            rope_parameters=LINEAR), False),
    "nemotron_h_untied": ("NemotronH", dict(NEMOTRON, layers_block_type=["linear_attention", "moe", "full_attention",
                                                                         "mlp"]), False),
    # The letters of published files; groups of experts, and no biases of the convolution.
    "nemotron_h_groups": ("NemotronH", dict(NEMOTRON, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
                                            norm_topk_prob=False, routed_scaling_factor=1.7, use_conv_bias=False,
                                            use_bias=True, conv_kernel=3, n_groups=1, num_key_value_heads=1,
                                            layers_block_type=["linear_attention", "moe", "moe",
                                                               "full_attention"]), True),
    "nemotron_h_joined": ("NemotronH", dict(NEMOTRON, n_routed_experts=4, mamba_num_heads=3, mamba_head_dim=12, n_groups=3,
                                            layers_block_type=["full_attention", "moe", "linear_attention"]), False),
    "granitemoehybrid_tied_losses": ("GraniteMoeHybrid", dict(GRANITE_HYBRID | LOSSES, num_hidden_layers=3,
                                                              embedding_multiplier=3.0, logits_scaling=2.5,
                                                              residual_multiplier=0.4, tie_word_embeddings=True,
                                                              layer_types=["linear_attention", "full_attention",
                                                                           "linear_attention"]), False),
    # Rotated attention, bounded steps, and all biases.
    "granitemoehybrid_rope": ("GraniteMoeHybrid", dict(GRANITE_HYBRID, num_local_experts=6, num_experts_per_tok=3,
                                                       position_embedding_type="rope", attention_bias=True,
                                                       rope_parameters=default(10000.0), mamba_proj_bias=True,
                                                       mamba_n_groups=1, mamba_n_heads=3, mamba_d_head=16,
                                                       time_step_limit=[0.1, 2.0], num_key_value_heads=1,
                                                       layer_types=["full_attention", "linear_attention"]), False),
    "granitemoehybrid_all": ("GraniteMoeHybrid", dict(GRANITE_HYBRID, num_local_experts=4, num_experts_per_tok=4,
                                                      mamba_conv_bias=False, mamba_d_conv=2,
                                                      layer_types=["linear_attention", "full_attention"]), False),
} | GEMMA4_EXPERT_CASES
EXPERT_CURVES = ("qwen3_moe_tied_losses", "qwen3_moe_untied", "mixtral_untied", "mixtral_tied_losses", "gpt_oss_untied",
                 "deepseek_v3_untied", "qwen3_next_untied", "qwen3_5_moe_joined", "glm4_moe_untied",
                 "glm4_moe_lite_untied", "minimax_m2_untied", "nemotron_h_untied", "granitemoehybrid_tied_losses",
                 "gemma4_experts")
MARGIN, CURVE_MARGIN = 5e-3, 5e-4  # of every choice in one batch, and in all batches of a curve; in logits
SIGMOID_SLOPE = 0.2  # about; DeepSeek's choices are made on sigmoids of logits
CLAMP_MARGIN = 1e-5
SEEDS = 400


def routers(model):
    return [m for m in model.modules() if type(m).__name__.endswith(("TopKRouter", "TopkRouter", "Gemma4TextRouter"))]


def is_gemma4(router):
    return type(router).__name__ == "Gemma4TextRouter"


def corrections(model):
    """Each router that corrects its scores, with its correction, which belongs to it or to the block around it."""
    return {getattr(module, "gate", module): module.e_score_correction_bias for module in model.modules()
            if hasattr(module, "e_score_correction_bias")}


def randomize_experts(model):
    """Routers that prefer some experts clearly, sinks that take a part of attention, and biases that change choices."""
    with torch.no_grad():
        for router in routers(model):
            if is_gemma4(router):  # its input has the length 1
                router.proj.weight.copy_(2.5 * torch.randn_like(router.proj.weight))
                continue
            is_sigmoid = router in corrections(model)
            router.weight.copy_((0.25 if is_sigmoid else 0.6) * torch.randn_like(router.weight))
            if is_sigmoid:  # saturated sigmoids would be near ties
                corrections(model)[router].copy_(0.4 * torch.randn(router.num_experts))
        for name, parameter in model.named_parameters():
            if name.endswith("sinks"):
                parameter.copy_(torch.randn_like(parameter))


def kth_margin(scores, count):
    if count == scores.shape[-1]:
        return 1.0
    ordered = scores.sort(dim=-1, descending=True).values
    return float((ordered[:, count - 1] - ordered[:, count]).min())


def choice_margin(router, logits, correction):
    if correction is None:
        return kth_margin(logits, router.top_k)
    scores = logits.sigmoid() + correction
    if not hasattr(router, "num_group"):
        return kth_margin(scores, router.top_k) / SIGMOID_SLOPE
    groups = scores.view(len(scores), router.num_group, -1)
    sums = groups.topk(2, dim=-1).values.sum(dim=-1)
    chosen = torch.zeros_like(sums).scatter_(1, sums.topk(router.topk_group, dim=-1).indices, 1)
    within = groups.masked_fill(chosen[..., None] == 0, -10.0).flatten(1)
    return min(kth_margin(sums, router.topk_group), kth_margin(within, router.top_k)) / SIGMOID_SLOPE


def clamp_margin(experts, gate_up):
    gate, up = gate_up[..., ::2], gate_up[..., 1::2]
    return float(torch.minimum((gate - experts.limit).abs().min(), (up.abs() - experts.limit).abs().min()))


class Margins:
    """Smallest margins of all forward passes of a model while this object watches it."""

    def __init__(self, model):
        self.choice = self.clamp = 1.0
        self.unused = 0  # experts of a layer that no token of some batch has chosen
        self.logits = []  # of the last pass, one tensor a layer, with their graph
        self.corrections = corrections(model)
        for router in routers(model):
            router.register_forward_hook(self.of_router)
        for module in model.modules():
            if hasattr(module, "_apply_gate") and hasattr(module, "limit"):
                self.watch_clamps(module)
        model.register_forward_pre_hook(lambda *_: self.logits.clear())

    def of_router(self, router, _, outputs):
        logits, experts = outputs[0], None
        if is_gemma4(router):  # it returns probabilities: their logarithms differ by as much as logits do
            logits, experts = logits.log(), router.config.num_experts
            router.top_k = router.config.top_k_experts
        self.logits.append(logits)
        self.choice = min(self.choice, choice_margin(router, logits.detach(), self.corrections.get(router)))
        self.unused = max(self.unused, (experts or router.num_experts) - len(outputs[2].unique()))

    def watch_clamps(self, experts):
        apply = experts._apply_gate

        def watched(gate_up):
            self.clamp = min(self.clamp, clamp_margin(experts, gate_up.detach()))
            return apply(gate_up)
        experts._apply_gate = watched

    def are_wide(self, is_curve):
        if not is_curve and self.unused > 1:
            return False
        return self.choice >= (CURVE_MARGIN if is_curve else MARGIN) and (is_curve or self.clamp >= CLAMP_MARGIN)


def expert_loss(model, margins, outputs, tokens, targets, loss):
    """Adds the losses of the router to the loss of the tokens."""
    config = model.config
    if getattr(outputs, "aux_loss", None) is not None:
        loss = loss + config.router_aux_loss_coef * outputs.aux_loss
    if getattr(config, "router_z_loss_coef", 0):
        rows = torch.cat(margins.logits)
        loss = loss + config.router_z_loss_coef * torch.logsumexp(rows, dim=-1).square().mean()
    return loss


MIXTRAL_NAMES = ("Mixtral", "MiniMaxM2")
GRANITE_NAMES = {"experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight",
                 "router.weight": "router.layer.weight"}


def name_here(name, kind):
    """Name that Tidepool gives to a tensor of a file: published files begin otherwise than those of transformers 5."""
    return "backbone." + name.removeprefix("model.") if kind == "NemotronH" and name.startswith("model.") else name


def names_in_files(name, tensor, kind, joined):
    """Tensors of a file that one of transformers' parameters, or its gradient, is divided into."""
    if kind == "GraniteMoeHybrid":
        before, _, own = name.partition("block_sparse_moe.")
        return {f"{before}block_sparse_moe.{GRANITE_NAMES[own]}" if own else name: tensor}
    if kind == "NemotronH":
        name = name_here(name, kind)
        if ".experts." not in name or joined:
            return {name: tensor}
        before, _, matrix = name.rpartition(".")
        return {f"{before}.{expert}.{matrix}.weight": part.contiguous() for expert, part in enumerate(tensor)}
    if ".mlp.experts." not in name or joined or kind == "GptOss":
        if kind in MIXTRAL_NAMES and not joined:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        return {name: tensor}
    before, _, matrix = name.rpartition(".")
    gate, up, down = ("w1", "w3", "w2") if kind in MIXTRAL_NAMES else ("gate_proj", "up_proj", "down_proj")
    if kind in MIXTRAL_NAMES:
        before = before.replace(".mlp.", ".block_sparse_moe.")
    out = {}
    for expert, part in enumerate(tensor):
        if matrix == "down_proj":
            out[f"{before}.{expert}.{down}.weight"] = part
        else:
            out[f"{before}.{expert}.{gate}.weight"], out[f"{before}.{expert}.{up}.weight"] = part.chunk(2)
    return {name: part.contiguous() for name, part in out.items()}


def to_old_keys(config):
    """Changes the keys of config.json, beside those of rotary angles, that transformers 4 wrote in another way."""
    if config["model_type"] == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")
    if config["model_type"] == "gpt_oss":
        config.update(experts_per_token=config["num_experts_per_tok"], initial_context_length=8)
    if config["model_type"] == "deepseek_v3":
        for key in ("head_dim", "qk_head_dim", "rope_interleave"):
            config.pop(key)
        config.update(ep_size=1, moe_layer_freq=1, scoring_func="sigmoid", topk_method="noaux_tc")
        config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")
    if config["model_type"] == "nemotron_h":
        letters = dict(linear_attention="M", full_attention="*", mlp="-", moe="E")
        kinds = config.pop("layers_block_type")
        config["hybrid_override_pattern"] = "".join(letters[kind] for kind in kinds)
        config["num_hidden_layers"] = len(kinds)
    if config["model_type"] == "minimax_m2":
        config["rotary_dim"] = round(config.pop("partial_rotary_factor") * config["head_dim"])
        config.update(scoring_func="sigmoid", use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True,
                      use_mtp=True, num_mtp_modules=3, attn_type_list=[1] * config["num_hidden_layers"])


def check_own_loss(model, tokens, targets, loss):
    """Compares with the loss that transformers computes itself, where it knows all of the losses."""
    if getattr(model.config, "router_z_loss_coef", 0):
        return
    own = model(tokens, labels=targets, shift_labels=targets).loss
    assert torch.isclose(own, loss, rtol=1e-6), (float(own), float(loss))


