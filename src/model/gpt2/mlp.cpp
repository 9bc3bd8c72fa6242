// GPT-2's MLP: two products with biases. GELU between them is the epilogue of the first product, and its
// gradient the epilogue of the second product's input gradient. The CPU fuses epilogues into products; GPUs
// compute them in a kernel of their own (docs/decisions/0029).
#include "model/gpt2/layer.h"

namespace tidepool::gpt2 {

using enum LayerTensor;

void first_of_mlp(const Layer& l, const FirstOfMlp& f) {
  const auto finish = [&](Matmul& product) {
    product.epilogue = f.y ? Epilogue::gelu : Epilogue::none;
    product.y = f.y ? f.y : f.pre;
    product.pre = f.y ? f.pre : Values();
    l.c.kernels.matmul(product);
  };
  Matmul product = {.m = rows_of(l.c),
                    .n = l.inner(),
                    .k = l.h(),
                    .x = f.norm,
                    .weight = l.window[c_fc_weight],
                    .bias = l.window[c_fc_bias]};
  if (!l.adapters.has(modules::c_fc.first)) return finish(product);
  product.y = f.pre ? f.pre : f.y;
  l.c.kernels.matmul(product);
  Matmul up = l.adapters.up(modules::c_fc.first, f.norm);
  up.addend = product.y;
  finish(up);
}

void last_of_mlp(const Layer& l, ConstValues y, Values out, ConstValues middle) {
  residual_product(
      l, {mlp_c_proj_weight, mlp_c_proj_bias, modules::mlp_c_proj, DropoutSite::after_mlp, l.inner()}, y, out,
      middle);
}

namespace {

// Computes workspace.dpre from dout: the backward of the last product and of GELU. The same pass recomputes
// GELU's output into workspace.wide, because both need the same exp.
void gelu_backward(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  const auto finish = [&](Matmul& product) {
    product.epilogue = Epilogue::gelu_backward;
    product.y = s.workspace.dpre;
    product.pre_in = s.inside.pre;
    product.value = s.workspace.wide;
    l.c.kernels.matmul(product);
  };
  Matmul product = {.m = rows_of(l.c),
                    .n = l.inner(),
                    .k = l.h(),
                    .x = dout,
                    .weight = l.window[mlp_c_proj_weight],
                    .transposed = true};
  if (const u32 module = modules::mlp_c_proj.first; l.adapters.has(module)) {
    l.adapters.input_gradient(module, dout, s.workspace.wide);
    product.addend = s.workspace.wide;
  }
  finish(product);
}

}  // namespace

void mlp_backward(const LayerGradients& s) {
  const Layer& l = s.layer;
  const Product c_proj = {mlp_c_proj_weight, mlp_c_proj_bias, l.h(), l.inner(), modules::mlp_c_proj};
  const Product c_fc = {c_fc_weight, c_fc_bias, l.inner(), l.h(), modules::c_fc};
  const ConstValues dout = through_dropout(s, DropoutSite::after_mlp);
  gelu_backward(s, dout);
  weight_gradient(s, c_proj, s.workspace.wide, dout);
  l.adapters.weight_gradients(c_proj.module, s.workspace.wide, dout, s.adapters);
  gradients(s, c_fc, s.workspace.norm, s.workspace.dpre);
  norm_gradient(s, NormSite::ln_2, s.inside.middle);
}

}  // namespace tidepool::gpt2
