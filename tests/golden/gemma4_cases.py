"""Cases of Gemma 4 for make_families.py."""

import torch


def default(theta):
    return dict(rope_type="default", rope_theta=theta)


GEMMA4 = dict(head_dim=10, global_head_dim=14, hidden_size_per_layer_input=0, pad_token_id=None, hidden_size=20,
              rope_parameters=dict(sliding_attention=default(3000.0),
                                   full_attention=dict(rope_type="proportional", rope_theta=50000.0,
                                                       partial_rotary_factor=0.5)))
GEMMA4_CASES = {
    # Heads of another size in layers that see all tokens, and norms of v.
    "gemma4_text": ("Gemma4", dict(GEMMA4, num_hidden_layers=3, sliding_window=7, final_logit_softcapping=1.5,
                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]), False),
    "gemma4_keys_are_values": ("Gemma4", dict(GEMMA4, num_hidden_layers=4, sliding_window=5, attention_k_eq_v=True,
                                              num_global_key_value_heads=1, vocab_size=59, global_head_dim=18,
                                              layer_types=["sliding_attention", "full_attention"] * 2,
                                              tie_word_embeddings=False), False),
    "gemma4_biases": ("Gemma4", dict(GEMMA4, num_hidden_layers=3, head_dim=12, global_head_dim=8, attention_k_eq_v=True,
                                     num_attention_heads=3, num_key_value_heads=3, attention_bias=True, hidden_size=22,
                                     intermediate_size=37,
                                     rope_parameters=dict(full_attention=default(70000.0),
                                                          sliding_attention=default(3000.0)),
                                     layer_types=["full_attention", "full_attention", "full_attention"]), False),
    # Inputs of each layer, and layers that read other layers' keys and values.
    "gemma4_layer_inputs": ("Gemma4", dict(GEMMA4, num_hidden_layers=3, sliding_window=7, num_key_value_heads=1,
                                           hidden_size_per_layer_input=6, vocab_size_per_layer_input=61,
                                           layer_types=["sliding_attention", "sliding_attention", "full_attention"]), False),
    "gemma4_shared_keys": ("Gemma4", dict(GEMMA4, num_hidden_layers=7, sliding_window=5, num_kv_shared_layers=4,
                                          use_double_wide_mlp=True, attention_k_eq_v=True, num_global_key_value_heads=1,
                                          hidden_size_per_layer_input=8, vocab_size_per_layer_input=53,
                                          layer_types=["sliding_attention", "full_attention"] * 3 + ["full_attention"]),
                           False),
    "gemma4_both": ("Gemma4", dict(GEMMA4, num_hidden_layers=5, sliding_window=7, num_attention_heads=3,
                                   num_key_value_heads=1, head_dim=8, global_head_dim=16, hidden_size=22,
                                   intermediate_size=37, hidden_size_per_layer_input=9, vocab_size_per_layer_input=53,
                                   num_kv_shared_layers=2, attention_bias=True, tie_word_embeddings=False,
                                   final_logit_softcapping=2.0,
                                   layer_types=["sliding_attention", "full_attention"] * 2 + ["full_attention"]), False),
}

EXPERTS = dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=14)
# Experts beside the dense MLP.
GEMMA4_EXPERT_CASES = {
    "gemma4_experts": ("Gemma4", dict(GEMMA4 | EXPERTS, num_hidden_layers=3, sliding_window=7, attention_k_eq_v=True,
                                      num_global_key_value_heads=1, final_logit_softcapping=2.0,
                                      layer_types=["sliding_attention", "full_attention", "full_attention"]), False),
    "gemma4_experts_inputs": ("Gemma4", dict(GEMMA4 | EXPERTS, num_hidden_layers=5, sliding_window=7, num_experts=6,
                                             top_k_experts=3, num_kv_shared_layers=2, use_double_wide_mlp=True,
                                             hidden_size_per_layer_input=6, vocab_size_per_layer_input=61, hidden_size=22,
                                             num_attention_heads=3, num_key_value_heads=1, head_dim=8, global_head_dim=16,
                                             layer_types=["sliding_attention", "full_attention"] * 2 + ["full_attention"]),
                              False),
    "gemma4_experts_all": ("Gemma4", dict(GEMMA4 | EXPERTS, num_hidden_layers=2, num_experts=4, top_k_experts=4,
                                          moe_intermediate_size=9, attention_bias=True, intermediate_size=37,
                                          tie_word_embeddings=False, vocab_size=59,
                                          layer_types=["sliding_attention", "full_attention"]), False),
}


def randomize_gemma4(model):
    """Layers' scalars are buffers, which no optimizer changes. Scores have the factor 1: q is made small, since with random q
    and k of a whole head's length attention would choose one token, which makes curves chaotic. So does a norm of small
    numbers, which is made small too. With experts beside the dense MLP, both are normalised twice: the sum is made small, and
    experts' outputs larger.
    """
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.copy_(1 + 0.3 * torch.randn_like(buffer))
        for name, parameter in model.named_parameters():
            if "Gemma4" in type(model).__name__ and name.endswith(("q_norm.weight", "per_layer_input_norm.weight")):
                parameter.mul_(0.3)
            if getattr(model.config, "enable_moe_block", False):
                if name.endswith("post_feedforward_layernorm.weight"):
                    parameter.mul_(0.3)
                if ".experts." in name:
                    parameter.mul_(2.5)
