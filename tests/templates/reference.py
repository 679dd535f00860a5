"""The reference for the chat template engine: jinja2 set up as Hugging Face transformers 5 does for chat templates.

Needs jinja2==3.1.6 and MarkupSafe==3.0.3 from PyPI.
"""
import copy
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

NOW = datetime.datetime(2026, 1, 5, 8, 7, 9)


class GenerationBlock(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: marks what the model wrote; the text passes through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class DictFunction:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


def refuse_private(name):
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"attribute {name!r} of a namespace")


class StrictNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, attrs = args[0], dict(*args[1:], **kwargs)
        for name in attrs:
            refuse_private(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        refuse_private(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    def __repr__(self):
        return jinja2.utils.Namespace.__repr__(self)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment(now=NOW):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: now.strftime(format)
    env.globals["dict"] = DictFunction()
    env.globals["namespace"] = StrictNamespace
    return env


def render(env, template, variables):
    """{"text": ...} or {"error": {"type": ..., "message": ...}}."""
    try:
        text = env.from_string(template).render(**copy.deepcopy(variables))  # the filter indent changes lists
        text.encode("utf-8")
        return {"text": text}
    except Exception as e:  # whatever Python raises is the reference
        return {"error": {"type": type(e).__name__, "message": str(e)}}
