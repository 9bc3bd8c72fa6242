"""Prints the commands of the rows: no program is started and no file is written.

A row's commands can depend on results. Here results are replaced: by names in capitals in commands, and by 1
in figures, which are not shown.
"""

import json

from gpu_bench import Bench
from gpu_figures import FSDP_LAYERS

REPORT = {
    "flops_per_second": 1,
    "tokens_per_second": 1,
    "tokens_per_step": 1,
    "step_seconds": 1,
    "predicted_step_seconds": 1,
    "train_seconds": 1,
    "exposed_seconds": {},
    "steps": 3,
    "tiers": {"device": {"measured_peak_bytes": 1, "budget_bytes": 1, "planned_peak_bytes": 1}},
}
PLAN = {"chunk_bytes": 1, "predicted_step_seconds": 1}
BENCHES = {
    "gemm": {"weight_gradients": "fp32", "shapes": [{"name": "shape", "m": 1, "n": 1, "k": 1, "flops_per_second": 1}]},
    "attention": {
        "sequences": "SEQUENCES",
        "tokens": "TOKENS",
        "heads": "HEADS",
        "head_size": "HEAD_SIZE",
        "attention": [{"name": "both", "flops_per_second": 1}],
        "library": "cuDNN",  # as if it were there, for the command without it
    },
    "copy": {
        "pieces": [{"piece_bytes": 1, "ways": [{"name": "both", "fraction": 1}]}],
        "plain": [{"bytes_per_second": 1}] * 3,
    },
}
TORCH = {
    "pytorch_gemm_bench.py": BENCHES["gemm"],
    "pytorch_attention_bench.py": {"flops_per_second": 1, "backend": "BACKEND"},
    "pytorch_fsdp_bench.py": {"tokens_per_second": 1, "micro_batch": 1},
    "pytorch_causal_lm_bench.py": {
        "tokens_per_second": 1,
        "transformers": "VERSION",
        "recomputed": False,
        "delta_rule": "PACKAGE",
    },
}


class DryBench(Bench):
    told = set()  # results made once for all rows

    def tell(self, words, environment):
        self.commands.append(self.command(words, environment))
        print(self.commands[-1], flush=True)

    def run(self, words, watch=None, at_line=None, **environment):
        self.tell([str(word) for word in words], environment)
        return json.dumps(PLAN)

    def bench(self, part, **environment):
        super().bench(part, **environment)
        return BENCHES[part]

    def torch_json(self, script, *words):
        super().torch_json(script, *words)
        # Real runs try smaller models only if the larger one does not fit; the dry run shows all commands.
        smaller_follow = "--layers" in words and str(FSDP_LAYERS[-1]) not in words
        return TORCH[script] | ({"does_not_fit": "DRY RUN"} if smaller_follow else {})

    def has_torch(self):
        return True

    def once(self, name, words, again=""):
        if name not in DryBench.told:
            DryBench.told.add(name)
            self.run(words)
        elif again:
            print(again, flush=True)

    def machine(self):
        self.once("machine", self.machine_words())
        return self.out / "machine.yaml"

    def peak_flops(self):
        self.machine()
        return 1

    @staticmethod
    def card_bytes():
        return 1 << 40

    def data(self):
        return self.out / "data.txt"

    def disk_budget(self):
        return "DISK"

    def train(self, name, *overrides, watch=None, at_line=None):
        self.run(self.train_words(name, overrides))
        return REPORT

    def drop_run(self, name):
        pass

    def offloaded(self, *overrides):
        words = self.train_words("offloaded", self.offloaded_words(overrides))
        self.machine()
        again = " ".join(["# above: the run", *self.offloaded_words(overrides)])
        self.once(" ".join(["offloaded", *overrides]), words, again)
        return {"report": REPORT, "memory": {"samples": [], "of": ""}, "first_step_at": 1, "rates": {}}

    def offloaded_before(self):
        return None

    @staticmethod
    def largest_model(text):
        return "SIZE", "LAYERS", "WIDTH", "HEADS"
