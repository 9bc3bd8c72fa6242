#!/usr/bin/env python3
"""Renders conversations with transformers: tests/golden/chat/expected.json, from the templates beside it.

Needs transformers and jinja2 (any recent versions). The templates are Tidepool's own, written like the templates of
model directories.
"""
import json
import pathlib
import sys
from unittest import mock

from transformers.utils import chat_template_utils

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/chat")
special = {"bos_token": "<s>", "eos_token": "</s>"}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


plain = [say("user", "What fills a tide pool?"), say("assistant", "The sea. Twice a day, or so!")]
turns = [say("user", "  One. Two three.\n"), say("assistant", "A line.\nAnd another line. "), say("user", "Done?"), say("assistant", "Yes")]
system = [say("system", "Be brief.  "), *turns]
thinking = [say("user", "2 + 2?"), say("assistant", "<think>\ntwo and two\n</think>\n\nFour."), say("user", "and 3?"),
            say("assistant", "Seven.", reasoning_content="four and three")]
unicode = [say("user", "Größe, 東京 and 😀\u00a0"), say("assistant", "Ça va: naïve café\tok")]
tools = [{"type": "function", "function": {"name": "tide", "description": "High tide at a \"place\"",
          "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]
calls = [say("user", "When is high tide in Brest?"),
         {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "tide", "arguments": {"place": "Brest", "n": 1.0}}}]},
         say("tool", "05:12"), say("assistant", "At 05:12.")]
parts = [say("user", [{"type": "text", "text": "in parts"}]), say("assistant", "ok")]
conversations = {"plain": plain, "turns": turns, "system": system, "thinking": thinking, "unicode": unicode, "user alone": plain[:1],
                 "calls": calls, "calls, tools": calls, "parts": parts, "two in a row": [plain[0], plain[0]]}

cases = []
for template in sorted(folder.glob("*.jinja")):
    source = template.read_text()
    for name, messages in conversations.items():
        for prompt in (False, True):
            for arguments in ({}, {"enable_thinking": False}) if template.stem == "qwen3" else ({},):
                case = {"template": template.name, "name": name, "messages": messages, "prompt": prompt, "arguments": {**special, **arguments},
                        "tools": tools if "tools" in name else None}
                compiled = chat_template_utils._compile_jinja_template(source)
                try:
                    with mock.patch.object(chat_template_utils, "datetime") as clock:
                        clock.now.return_value.strftime = lambda form: __import__("datetime").datetime(2025, 1, 1).strftime(form)
                        text, spans = chat_template_utils._render_with_assistant_indices(
                            compiled, messages, case["tools"], None, prompt, **case["arguments"])
                    case["text"] = text
                    case["generations"] = [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]
                except Exception as error:  # refused by the template, or impossible with these values
                    case["error"] = type(error).__name__
                cases.append(case)

(folder / "expected.json").write_text(json.dumps(cases, ensure_ascii=False, indent=0) + "\n")
print(f"{len(cases)} cases, {sum('error' in c for c in cases)} of them refused")
