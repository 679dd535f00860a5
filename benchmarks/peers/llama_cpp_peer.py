"""One measurement of llama.cpp through its Python package: MODEL PROMPT TOKENS DEPTH THREADS -> a line of JSON."""
import json
import random
import sys
import time

import llama_cpp

model, prompt, tokens, depth, threads = sys.argv[1], *map(int, sys.argv[2:6])
start = time.perf_counter()
llm = llama_cpp.Llama(model, n_ctx=max(prompt, depth + tokens) + 8, n_threads=threads, n_threads_batch=threads, n_batch=512, n_ubatch=512, verbose=False)
load = time.perf_counter() - start
random.seed(1)
ids = lambda n: [random.randrange(llm.n_vocab()) for _ in range(n)]
llm.eval(ids(16))
llm.reset()
batch = ids(prompt)
start = time.perf_counter()
llm.eval(batch)
prefill = prompt / (time.perf_counter() - start)
llm.reset()
if depth:
    llm.eval(ids(depth))
batch = ids(tokens)
start = time.perf_counter()
for t in batch:
    llm.eval([t])
decode = tokens / (time.perf_counter() - start)
print(json.dumps({"prefill": prefill, "decode": decode, "load": load}))
