#!/usr/bin/env python3
"""Compares split patterns of tokenizers with Hugging Face's library: random regular expressions on random strings.
If neither refuses a pattern, the words must be the same. Needs the Python package tokenizers.

  scripts/compare_patterns.py PROGRAM [--count 10000] [--seed 1]

PROGRAM is tokenizer_bench, built with -DTIDEPOOL_BUILD_BENCHMARKS=ON. About 50 patterns a second.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

STYLE = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "tokenizers" / "mistral.json"

# Characters whose case mapping is not one to one, or for which Unicode tables differ.
CHARACTERS = list("abstSfijx'1 -_.\u00e9\u00df\u017fK\u212ak\u0131\u0130\u03a3\u03c2\u0149\ufb01\u01c6\u01c5\u00b5\u4e2d"
                  "\u0301\u0345\u03b9\u1e9e\n\u2167\u24d0\U00010400\u1c89")
SETS = [r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", r"\p{L}", r"\p{Lu}", r"\p{N}", r"\P{L}", r"\p{^Nd}", r"\p{M}",
        r"\p{Han}", r"\p{Greek}", r"\p{P}", r"\p{S}", r"\p{Zs}"]
ESCAPES = [r"\n", r"\t", r"\r", r"\.", r"\-", r"\x41", r"\x{df}", r"\u00e9", r"\xe9", r"\]", r"\[", r"\\", r"\e", r"\v",
           r"\x{20}", r"\'", r"\/", r"\#", r"\ "]
ASSERTIONS = [".", "^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", r"\K", r"\R"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{1}", "{1,1}", "{1,1}?", "{2}", "{1,2}", "{,2}", "{2,}", "{1,2}?", "{1,2}+", "{2}?"]
HEADS = ["", "?:", "?:", "?i:", "?i:", "?-i:", "?=", "?!", "?<=", "?<!", "?>"]
WORDS = CHARACTERS + ["ss", "SS", "st", "STRASSE", "stra\u00dfe", "fi", "FI", "\ufb03", "ffi", "i\u0307", "I", "L", "l", "\u0386",
                      "\u0386\u0399", "a1", "A", "B", " \n", "  ", "\u3000", "\u00a0", "\u180e", "\u200b", "\u00b2", "\u00bd",
                      "\u24b6", "\u2177", "\u01c4", "\u1c8a", "\U00010428", "\u65e5\u672c", "123", "\t", "\x0b", "\x1b", "\x85",
                      "\u0436", "\u0416", "\u0627", "!"]


class Patterns:
    def __init__(self, rng):
        self.rng = rng

    def pattern(self):
        return ("(?i)" if self.rng.random() < 0.15 else "") + self.alternation(2)

    def alternation(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.quantified(depth) for _ in range(self.rng.randint(1, 3)))

    def quantified(self, depth):
        return self.atom(depth) + (self.rng.choice(QUANTIFIERS) if self.rng.random() < 0.3 else "")

    def atom(self, depth):
        choice, rng = self.rng.choice, self.rng
        kind = rng.random()
        if kind < 0.3:
            return choice(CHARACTERS)
        if kind < 0.42:
            return choice(CHARACTERS) + choice(CHARACTERS)
        if kind < 0.55:
            return "[" + ("^" if rng.random() < 0.3 else "") + "".join(self.member() for _ in range(rng.randint(1, 4))) + "]"
        if kind < 0.68:
            return choice(SETS)
        if kind < 0.76:
            return choice(ESCAPES)
        if kind < 0.8:
            return choice(ASSERTIONS)
        return f"({choice(HEADS)}{self.alternation(depth - 1)})" if depth else choice(CHARACTERS)

    def member(self):
        choice = self.rng.choice
        kind = self.rng.random()
        if kind < 0.35:
            return choice(CHARACTERS)
        if kind < 0.55:
            return choice(SETS)
        if kind < 0.7:
            return "-".join(sorted([choice(CHARACTERS + list("azAZ09!~")), choice(CHARACTERS + list("azAZ09!~"))]))
        if kind < 0.85:
            return choice(ESCAPES)
        return choice(["-", "]", "^", "[", "&&", "a-c-z", "$", ".", "|", "(", "{", " "])


def tokenizer_with(pattern):
    """Makes a tokenizer that puts a mark in front of each word, so that the ids show where words begin."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    mark = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}
    return dict(json.loads(STYLE.read_text()), added_tokens=[], post_processor=None, normalizer=None,
                pre_tokenizer={"type": "Sequence", "pretokenizers": [split, mark]})


def compare(program, pattern, texts):
    """Returns the verdict on a pattern, and the first text that the two split differently."""
    file = json.dumps(tokenizer_with(pattern))
    try:
        library = Tokenizer.from_str(file)
    except Exception:  # the library has no exception type for refusals
        return "refused by the library", None
    try:
        theirs = [library.encode(text).ids for text in texts]
    except BaseException:  # a fault within, or too many steps
        return "not finished by the library", None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "t.json").write_text(file)
        (path / "strings").write_text("".join(json.dumps(t) + "\n" for t in texts))
        run = subprocess.run([program, "ids", path / "t.json", path / "strings"], capture_output=True, text=True)
    if run.returncode:
        known = "not supported" in run.stderr or "does not compile" in run.stderr
        return ("refused here", None) if known else ("FAILED", run.stderr[-300:])
    ours = [json.loads(line)["ids"] for line in run.stdout.split("\n")[:-1]]
    wrong = next((i for i in range(len(texts)) if ours[i] != theirs[i]), None)
    return ("the same", None) if wrong is None else ("DIFFERENT", texts[wrong])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    patterns = Patterns(rng)
    counts = collections.Counter()
    for _ in range(arguments.count):
        pattern = patterns.pattern()
        texts = ["".join(rng.choice(WORDS) for _ in range(rng.randint(3, 40))) for _ in range(60)]
        what, example = compare(arguments.program, pattern, texts)
        counts[what] += 1
        if example is not None:
            print(f"{what}: {pattern!r} on {example!r}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))
    sys.exit(1 if counts["DIFFERENT"] + counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
