"""One measurement of onnxruntime-genai: FOLDER PROMPT TOKENS DEPTH THREADS -> a line of JSON."""
import json
import random
import sys
import time

import onnxruntime_genai as og

model, prompt, tokens, depth, threads = sys.argv[1], *map(int, sys.argv[2:6])
start = time.perf_counter()
config = og.Config(model)
config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
m = og.Model(config)
load = time.perf_counter() - start
vocabulary = json.load(open(model + "/genai_config.json"))["model"]["vocab_size"]
random.seed(1)
ids = lambda n: [random.randrange(3, vocabulary) for _ in range(n)]


def generator(length):
    params = og.GeneratorParams(m)
    params.set_search_options(max_length=length, do_sample=False)
    return og.Generator(m, params)


g = generator(prompt + 8)
batch = ids(prompt)
start = time.perf_counter()
g.append_tokens(batch)
prefill = prompt / (time.perf_counter() - start)
g = generator(depth + tokens + 8)
g.append_tokens(ids(max(depth, 1)))
start = time.perf_counter()
done = 0
while done < tokens and not g.is_done():
    g.generate_next_token()
    done += 1
print(json.dumps({"prefill": prefill, "decode": done / (time.perf_counter() - start), "load": load}))
