#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers in the styles of known families, and ids of random strings by
Hugging Face's library. Needs the Python package tokenizers (0.23.3 made the committed files).

  scripts/make_golden_tokenizers.py                        # writes the folder anew, with words of today's documents
  scripts/make_golden_tokenizers.py --features             # features.json alone, with the existing styles and strings
  scripts/make_golden_tokenizers.py --compare PROGRAM      # 100,000 other strings per style: no difference allowed
  scripts/make_golden_tokenizers.py --speed PROGRAM        # 100 MB on the cores this process may use, side by side

PROGRAM is tokenizer_bench, built with -DTIDEPOOL_BUILD_BENCHMARKS=ON.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "tests" / "golden" / "tokenizers"
VOCABULARY = 1200
GOLDEN_STRINGS = 2000

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}"
          r"\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

SCRIPTS = """
Das Mädchen läuft über die Straße, während der Bär schläft; größer, süßer, weiß. Ça va être l'été, garçon, où œuvre?
El niño comió piñones mañana. Žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń. Ağaç İstanbul'da ısırgan şöyle.
Съешь же ещё этих мягких французских булок, да выпей чаю. Жил-был у бабушки серенький козлик, вот как.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ο καιρός είναι καλός σήμερα και η θάλασσα ήρεμη.
דג סקרן שט בים מאוכזב ולפתע מצא לו חברה. نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر.
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। আমি বাংলায় গান গাই। நான் தமிழ் பேசுகிறேன்.
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน 我能吞下玻璃而不伤身体。天地玄黄，宇宙洪荒，日月盈昃，辰宿列张。
いろはにほへと ちりぬるを。カタカナとひらがな、漢字を書きます。키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.
""".strip().split("\n")

EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇨🇭", "❤️", "1️⃣", "🤖", "🧑🏿‍🚀", "☃", "🀄", "🫠", "🪿"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\u00a0", "\u3000", "\u180e", "\u200b", "\u2028", "\x85",
          "\x0b", "\x0c", "\u202f", "        ", "\n  ", "\r"]
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "[INST]",
           "[/INST]", "<tool_call>", "<0x0A>", "<|im_start", "<<s>>", "\u2581", "\u2581\u2581", "<s", "<mask>", "widget"]
CONTRACTIONS = ["'s", "'S", "'\u017f", "'t", "'Re", "'VE", "'ll", "'Ll", "'d", "'m", "\u2019s", "''s", " 's"]
CODE = ["for (int i = 0; i < n; ++i) {", "def f(x):\n    return x ** 2\n", "#include <vector>\n", "a[i]->b.c != nullptr && !d;",
        "SELECT * FROM t WHERE a='b';", "<div class=\"x\">&amp;</div>", "0x7fff_FFFF + 1e-5f", "\\d+\\s*(?:a|b)$", "// ----",
        "{\"k\": [1, 2.5, null]}", "x=$(( y+1 ))", "if(!ok)return;\n\n\n", "\treturn\t-1;", "https://example.org/a?b=c#d"]


def random_characters(rng):
    """A few characters from somewhere in Unicode, most often from the planes in use."""
    kind = rng.random()
    if kind < 0.3:
        base = rng.randrange(0x20, 0x3000)
    elif kind < 0.5:
        base = rng.randrange(0x3000, 0xD700)
    elif kind < 0.6:
        base = rng.choice([0x300, 0x1100, 0x1161, 0x11A8, 0x591, 0x93C, 0x1DC0, 0xFE00, 0xE0100, 0x1F1E6, 0x323B0, 0x16D40,
                           0x10D40, 0x1E5D0, 0x870, 0xA7CB, 0x1C89, 0x2EBF0, 0x31350, 0x11F00])
    elif kind < 0.8:
        base = rng.randrange(0xE000, 0x20000)
    else:
        base = rng.randrange(0, 0x110000)
    out = []
    for _ in range(rng.randrange(1, 6)):
        point = min(base + rng.randrange(0, 40), 0x10FFFF)
        if not 0xD800 <= point < 0xE000:
            out.append(chr(point))
    return "".join(out)


def random_word(rng, words):
    word = rng.choice(words)
    kind = rng.random()
    if kind < 0.1:
        word = word.upper()
    elif kind < 0.2:
        word = word.capitalize()
    elif kind < 0.25:
        word = word + rng.choice("\u0301\u0308\u0327\u0323") + rng.choice("\u0301\u0323a")
    return word


def random_number(rng):
    digits = rng.choice(["0123456789"] * 4 + ["٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "Ⅷ½²①", "𝟘𝟙𝟚"])
    return "".join(rng.choice(digits) for _ in range(rng.randrange(1, 9)))


def random_string(rng, words):
    parts = []
    for _ in range(rng.randrange(1, rng.choice([3, 8, 30]))):
        kind = rng.random()
        if kind < 0.42:
            parts.append(random_word(rng, words))
        elif kind < 0.50:
            parts.append(rng.choice(CODE))
        elif kind < 0.56:
            parts.append(random_number(rng))
        elif kind < 0.62:
            parts.append(rng.choice(EMOJI))
        elif kind < 0.67:
            parts.append(rng.choice(SPECIAL))
        elif kind < 0.71:
            parts.append(rng.choice(CONTRACTIONS))
        elif kind < 0.80:
            parts.append(random_characters(rng))
        elif kind < 0.88:
            parts.append("".join(rng.choice(".,;:!?-_()[]{}*/+=~`@#%^&|<>\"'\\$") for _ in range(rng.randrange(1, 5))))
        else:
            parts.append(rng.choice(SPACES))
        if rng.random() < 0.6:
            parts.append(rng.choice(SPACES) if rng.random() < 0.15 else " ")
    return "".join(parts)


def strings(seed, count):
    rng = random.Random(seed)
    words = sorted({w for line in SCRIPTS + training_text() for w in line.split() if len(w) < 24})
    out = ["", " ", "\n", "a", "\u2581", "  leading", "trailing  ", "a" * 400, "ab " * 100, "\u00e9" * 70, " " * 100,
           "\U0001f600" * 40, "\u4e2d" * 90, "\0", "x\0y"]
    while len(out) < count:
        out.append(random_string(rng, words))
    return out[:count]


def every_character():
    """Returns each character among characters with which it may combine or change places."""
    points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    text = lambda c: f"{c} a{c}\u0325b{c}\u0301 \u0301{c}\u0323x{c}'s{c}\u3099"
    return ["".join(text(chr(p)) for p in points[i:i + 64]) for i in range(0, len(points), 64)]


def training_text():
    lines = []
    for name in ["README.md", "ARCHITECTURE.md", "docs/prediction.md", "docs/lower-bounds.md", "src/planner/planner.cpp"]:
        lines += (ROOT / name).read_text().split("\n")
    return lines


def train(pre_tokenizer, special, alphabet):
    """Vocabulary and merges, ids in order: special tokens, alphabet, merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet,
                                  show_progress=False, limit_alphabet=max(len(alphabet), 300))
    tokenizer.train_from_iterator(training_text() + SCRIPTS * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


def added(vocabulary, contents, **options):
    next_id = len(vocabulary)
    out = []
    for content in contents:
        if content in vocabulary:
            token_id = vocabulary[content]
        else:
            token_id, next_id = next_id, next_id + 1
        out.append({"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": True, **options})
    return out


def bpe(vocabulary, merges, **options):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": merges, **options}


def whole(model, added_tokens, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts, "model": model}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ONLY = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def template(token, token_id):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}}}


def split(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, BYTES_ONLY]}


def styles():
    byte_alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_level = train(pre_tokenizers.ByteLevel(add_prefix_space=False), [], byte_alphabet)
    fallback = [f"<0x{b:02X}>" for b in range(256)]
    sentence = train(pre_tokenizers.Metaspace(), ["<unk>", "<s>", "</s>"] + fallback, [])
    out = {}

    vocabulary = dict(byte_level[0], **{"<|endoftext|>": len(byte_level[0])})
    model = bpe(vocabulary, [" ".join(m) for m in byte_level[1]])
    # absent, as in GPT-2's file, which is older than these keys
    for key in ["type", "byte_fallback", "ignore_merges"]:
        del model[key]
    model.update(unk_token="", continuing_subword_prefix="", end_of_word_suffix="")
    old = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    out["gpt2"] = whole(model, added(vocabulary, ["<|endoftext|>"], normalized=True), pre_tokenizer=old,
                        post_processor=dict(old, trim_offsets=False), decoder=dict(old, add_prefix_space=True))

    vocabulary, merges = sentence
    options = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    back = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    to_low_line = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    out["llama2"] = whole(bpe(vocabulary, [" ".join(m) for m in merges], **options),
                          added(vocabulary, ["<unk>", "<s>", "</s>"]), normalizer=to_low_line, decoder=back,
                          post_processor=template("<s>", 1))
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    out["mistral"] = whole(bpe(vocabulary, merges, **options),
                           added(vocabulary, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]), pre_tokenizer=metaspace,
                           decoder=back, post_processor=template("<s>", 1))

    vocabulary, merges = byte_level
    # Words that no merge produces, to test ignore_merges.
    longer = dict(vocabulary, **{w: len(vocabulary) + i for i, w in enumerate(["\u0120xyzzy", "Dasein", "qjx"])})
    specials = added(longer, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>"])
    begin = specials[0]["id"]
    out["llama3"] = whole(bpe(longer, merges, ignore_merges=True), specials, pre_tokenizer=split(LLAMA3), decoder=BYTE_LEVEL,
                          post_processor={"type": "Sequence", "processors": [
                              dict(BYTE_LEVEL, trim_offsets=False), template("<|begin_of_text|>", begin)]})
    specials = added(vocabulary, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"])
    for token in specials[3:]:
        token["special"] = False
    out["qwen"] = whole(bpe(vocabulary, [" ".join(m) for m in merges], continuing_subword_prefix="", end_of_word_suffix=""),
                        specials, normalizer={"type": "NFC"}, pre_tokenizer=split(QWEN), decoder=BYTES_ONLY,
                        post_processor=BYTES_ONLY)
    out["tekken"] = whole(bpe(longer, merges, ignore_merges=True), added(longer, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]),
                          pre_tokenizer=split(TEKKEN), decoder=BYTE_LEVEL)
    return out


def features():
    """Returns changes to styles that cover all other supported features: (name, style, changed keys)."""
    def pre(*steps):
        return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": list(steps)}}

    def cut(pattern, behavior="Isolated", invert=False, kind="Regex"):
        return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}

    out = []
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            out.append((f"split {behavior} {invert}", "gpt2", pre(cut(r"[aeiou]|\s+", behavior, invert), BYTES_ONLY)))
        out.append((f"split string {behavior}", "gpt2", pre(cut(" t", behavior, kind="String"), BYTES_ONLY)))
    for pattern in [r"\w+|[^\w\s]+", r"x*", r"(?<=a)b|\d{2,}", r"^\S+$", r"[^\S\n]+|.", r"\x{61}|\u0062|\h{3}", r"(a|b)++c?",
                    r"(?i:the|É|[α-ω]+|’S)", r"[!-/:-@\[-`]+", r"[一-龥]|[ぁ-ん]+", r"\p{Lu}\p{Ll}+|\p{P}|\p{^L}\P{N}", r"a{,2}b{2}|c{d"]:
        out.append((f"pattern {pattern}", "gpt2", pre(cut(pattern), BYTES_ONLY)))
    for prefix in [True, False]:
        out.append((f"prefix space {prefix}", "gpt2", {"pre_tokenizer": dict(BYTE_LEVEL, add_prefix_space=prefix)}))
        out.append((f"digits {prefix}", "gpt2", pre({"type": "Digits", "individual_digits": prefix}, BYTE_LEVEL)))
    out.append(("byte level, then split", "gpt2", pre(BYTE_LEVEL, cut("\u0120t", kind="String"))))
    out.append(("whitespace", "gpt2", pre({"type": "Whitespace"}, BYTES_ONLY)))
    out.append(("whitespace split", "gpt2", pre({"type": "WhitespaceSplit"}, BYTES_ONLY)))
    for scheme in ["always", "first", "never"]:
        for splits in [True, False]:
            meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": splits}
            out.append((f"metaspace {scheme} {splits}", "mistral", {"pre_tokenizer": meta, "decoder": meta}))
    old = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True, "str_rep": "\u2581"}
    out.append(("older metaspace", "mistral", {"pre_tokenizer": old, "decoder": old}))
    out.append(("strip", "gpt2", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}))
    out.append(("strip, metaspace first", "mistral", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}}))
    out.append(("replace regex", "gpt2", {"normalizer": {"type": "Replace", "pattern": {"Regex": r"\s{2,}|\d"}, "content": "#"}}))
    out.append(("replace by nothing", "mistral",
                {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": ""}}))
    for unk in ["<unk>", None]:
        for fuse in [True, False]:
            model = {"byte_fallback": False, "fuse_unk": fuse, "unk_token": unk}
            out.append((f"unknown {unk} {fuse}", "llama2", {"model": model}))
    out.append(("affixes", "mistral", {"model": {"end_of_word_suffix": "e", "byte_fallback": False}}))
    out.append(("no decoder", "gpt2", {"decoder": None}))
    out.append(("decoder by regex", "gpt2", {"decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "."}, {"type": "Strip", "content": "t", "start": 2, "stop": 0},
        {"type": "Fuse"}]}}))
    for name, options in [("plain", {}), ("lstrip", {"lstrip": True}), ("rstrip", {"rstrip": True}),
                          ("both", {"lstrip": True, "rstrip": True}), ("single", {"single_word": True}),
                          ("single both", {"single_word": True, "lstrip": True, "rstrip": True})]:
        for normalized in [True, False]:
            for style in ["gpt2", "llama2"]:
                tokens = {"extra": ["<mask>", "widget", "the", "  ", "\u00e9", " a"],
                          "options": dict(options, normalized=normalized, special=False)}
                out.append((f"added {name} {normalized} {style}", style, {"added_tokens": tokens}))
    return out


def changed(style, change):
    """Returns the style with changed keys. Keys of the model and the added tokens are merged, others replaced."""
    out = dict(style)
    for key, value in change.items():
        if key == "model":
            out[key] = dict(style[key], **value)
        elif key == "added_tokens":
            next_id = 1 + max(max(style["model"]["vocab"].values()), max(t["id"] for t in style[key]))
            out[key] = list(style[key])
            for content in value["extra"]:
                known = style["model"]["vocab"].get(content)
                if known is None:
                    known, next_id = next_id, next_id + 1
                out[key].append({"id": known, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                 **value["options"]})
        else:
            out[key] = value
    return out


def oracle(style):
    return Tokenizer.from_str(json.dumps(style))


def results(tokenizer, texts):
    encoded = tokenizer.encode_batch(texts, add_special_tokens=True)
    ids = [e.ids for e in encoded]
    return ids, tokenizer.decode_batch(ids, skip_special_tokens=False)


def committed(names):
    return {name: json.loads((OUT / f"{name}.json").read_text()) for name in names}


def write_golden():
    OUT.mkdir(parents=True, exist_ok=True)
    made = styles()
    texts = strings(1, GOLDEN_STRINGS)
    dump = dict(ensure_ascii=True, separators=(",", ":"))
    (OUT / "strings.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    for name, style in made.items():
        (OUT / f"{name}.json").write_text(json.dumps(style, **dump) + "\n")
        ids, back = results(oracle(style), texts)
        # Rows repeat the decoded text only if it differs from the constant front followed by the text.
        front = decoded_front(style)
        rows = [[i] if b == front + t else [i, b] for i, b, t in zip(ids, back, texts)]
        text = ",\n".join(json.dumps(r, **dump) for r in rows)
        (OUT / f"{name}.ids.json").write_text('{"front":' + json.dumps(front) + ',"rows":[\n' + text + "]}\n")
        print(f"{name}: {len(style['model']['vocab'])} tokens, {sum(map(len, ids))} ids, "
              f"{sum(len(r) == 1 for r in rows)} of {len(texts)} come back as they were")
    write_features(made, strings(2, 50))


def write_features(made, few):
    dump = dict(ensure_ascii=True, separators=(",", ":"))
    rows = []
    for name, style, change in features():
        ids, back = results(oracle(changed(made[style], change)), few)
        rows.append({"name": name, "style": style, "change": change, "ids": ids, "decoded": back})
    text = ",\n".join(json.dumps(r, **dump) for r in rows)
    (OUT / "features.json").write_text('{"strings":' + json.dumps(few, **dump) + ',\n"cases":[\n' + text + "]}\n")
    print(f"{len(rows)} further cases; tokenizers {tokenizers.__version__}")


def compare(program, count, names):
    """Compares PROGRAM with the library, on the styles with these names and all their features."""
    made = committed(names)
    cases = [(name, style) for name, style in made.items()]
    cases += [(name, changed(made[style], change)) for name, style, change in features() if style in made]
    failures = 0
    for index, (name, style) in enumerate(cases):
        texts = strings(1000 + index, count if name in made else count // 20)
        if name in made:
            texts += every_character()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "t.json").write_text(json.dumps(style))
            (path / "strings").write_text("".join(json.dumps(t) + "\n" for t in texts))
            run = subprocess.run([program, "ids", path / "t.json", path / "strings"], capture_output=True, text=True, check=True)
        ids, back = results(oracle(style), texts)
        ours = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
        wrong = [i for i in range(len(texts)) if ours[i]["ids"] != ids[i] or ours[i]["decoded"] != back[i] or not ours[i]["parts"]]
        front = decoded_front(style)
        lossless = sum(b == front + t for b, t in zip(back, texts))
        print(f"{name:40} {len(texts):7} strings, {sum(map(len, ids)):9} ids, {len(wrong)} differ, {lossless} decode to the text", flush=True)
        for i in wrong[:3]:
            at = next((k for k, (a, b) in enumerate(zip(ours[i]["ids"], ids[i])) if a != b), -1)
            print("   from id", at, ids[i][max(at - 3, 0):at + 8], ours[i]["ids"][max(at - 3, 0):at + 8])
            print("  ", repr(texts[i])[:300], "\n   theirs", ids[i][:60], repr(back[i])[:200], "\n   ours  ", ours[i]["ids"][:60],
                  repr(ours[i]["decoded"])[:200], ours[i]["parts"])
        failures += len(wrong)
    return failures


def decoded_front(style):
    """Returns the front that encoding and decoding add to a text: the post-processor's tokens, and a space."""
    tokenizer = oracle(style)
    return tokenizer.decode(tokenizer.encode("a").ids, skip_special_tokens=False).removesuffix("a")


def speed_texts(size):
    """Documents of about 4 KB from the text files of this machine: sources, documentation, several languages."""
    texts, total = [], 0
    files = sorted(p for folder in ["/usr/share/doc", "/usr/share/vim", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/include",
                                    "/usr/share/perl"] for p in pathlib.Path(folder).rglob("*") if p.is_file())
    random.Random(5).shuffle(files)
    while total < size:
        for file in files:
            try:
                text = file.read_text()[:200_000]
            except (UnicodeDecodeError, OSError):
                continue
            for at in range(0, len(text), 4000):
                texts.append(text[at:at + 4000])
                total += len(texts[-1].encode())
            if total >= size:
                break
    return texts


def speed(program, name, size, rounds):
    """Times PROGRAM and the library in turns, on one style with a vocabulary of 32,000."""
    global VOCABULARY, training_text
    texts = speed_texts(size)
    sample = random.Random(6).sample(texts, min(len(texts), 1500))
    VOCABULARY, training_text = 32_000, lambda: sample
    style = styles()[name]
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "t.json").write_text(json.dumps(style))
        (path / "strings").write_text("".join(json.dumps(t) + "\n" for t in texts))
        ours, theirs = [], []
        for _ in range(rounds):
            words = [program, "speed", path / "t.json", path / "strings", str(cores)]
            run = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            ours.append(run["seconds"])
            tokenizer = oracle(style)
            begin = time.perf_counter()
            encoded = tokenizer.encode_batch_fast(texts)
            theirs.append(time.perf_counter() - begin)
            tokens = sum(len(e.ids) for e in encoded)
            assert tokens == run["tokens"], (tokens, run["tokens"])
    ours_s, theirs_s = statistics.median(ours), statistics.median(theirs)
    print(f"{name}: {run['bytes'] / 1e6:.1f} MB, {tokens} tokens, {cores} cores, {rounds} rounds: ours {ours_s:.2f} s "
          f"({run['bytes'] / 1e6 / ours_s:.1f} MB/s; {ours}), library {theirs_s:.2f} s "
          f"({run['bytes'] / 1e6 / theirs_s:.1f} MB/s; {theirs}), ratio of medians {theirs_s / ours_s:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--compare", metavar="PROGRAM")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--speed", metavar="PROGRAM")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--styles", nargs="*", default=["gpt2", "llama2", "mistral", "llama3", "qwen", "tekken"])
    arguments = parser.parse_args()
    if arguments.speed:
        for name in arguments.styles:
            speed(arguments.speed, name, arguments.megabytes * 1_000_000, arguments.rounds)
        return
    if arguments.compare:
        sys.exit(1 if compare(arguments.compare, arguments.count, arguments.styles) else 0)
    if arguments.features:
        write_features(committed(arguments.styles), json.loads((OUT / "features.json").read_text())["strings"])
        return
    write_golden()


if __name__ == "__main__":
    main()
