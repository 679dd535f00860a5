#include "session/plan_page.h"

namespace ullage::session {

std::string_view PlanPageHead() {
  return R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Memory plan</title>
<style>
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --card: #ffffff; --ink: #1d2430; --soft: #5c6675; --line: #dfe3ea; --hot: #c0392b; --good: #1e8449;
  --weights: #3b6fb6; --prepacked: #7aa6dc; --kv: #e08a1e; --activations: #2a9d76; --workspace: #b65aa8; --staging: #8c6d31;
  --overhead: #8a94a3;
}
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {
  --ground: #12151a; --card: #1b2028; --ink: #e6e9ee; --soft: #98a2b1; --line: #2c333e; --hot: #ff7b6b; --good: #5fd08c;
  --weights: #5b93e0; --prepacked: #9cc3f2; --kv: #f2a94a; --activations: #45c79c; --workspace: #d68acb; --staging: #c2a25c;
  --overhead: #7c8796;
} }
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark;
  --ground: #12151a; --card: #1b2028; --ink: #e6e9ee; --soft: #98a2b1; --line: #2c333e; --hot: #ff7b6b; --good: #5fd08c;
  --weights: #5b93e0; --prepacked: #9cc3f2; --kv: #f2a94a; --activations: #45c79c; --workspace: #d68acb; --staging: #c2a25c;
  --overhead: #7c8796;
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }
header { display: flex; align-items: baseline; gap: 14px; flex-wrap: wrap; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 10px; }
h3 { font-size: 14px; margin: 18px 0 6px; color: var(--soft); font-weight: 600; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px; margin-top: 18px; }
.verdict { font-weight: 600; padding: 2px 12px; border-radius: 999px; border: 1px solid currentColor; }
.verdict.yes { color: var(--good); } .verdict.no { color: var(--hot); }
.soft { color: var(--soft); }
button { margin-left: auto; font: inherit; color: var(--soft); background: none; border: 1px solid var(--line); border-radius: 8px;
  padding: 3px 12px; cursor: pointer; }
button:hover { color: var(--ink); }
.bar { display: flex; height: 34px; border-radius: 8px; overflow: hidden; position: relative; background: var(--line); }
.bar i { display: block; height: 100%; }
.limit { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--hot); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 12px 0 0; padding: 0; list-style: none; }
.legend li { display: flex; align-items: center; gap: 7px; }
.swatch { width: 12px; height: 12px; border-radius: 3px; display: inline-block; flex: none; }
.number { font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: 340px; border: 1px solid var(--line); border-radius: 8px; }
svg rect.buffer { stroke: var(--card); stroke-width: 1; vector-effect: non-scaling-stroke; }
svg rect.buffer:hover, svg rect.buffer.on { stroke: var(--ink); stroke-width: 2; }
.axis { display: flex; justify-content: space-between; color: var(--soft); font-size: 12px; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); font-weight: normal; vertical-align: middle; }
th { color: var(--soft); font-size: 13px; }
td.right, th.right { text-align: right; }
td.name { overflow-wrap: anywhere; }
code { font: 13px/1.4 ui-monospace, Menlo, Consolas, monospace; background: var(--ground); padding: 2px 6px; border-radius: 5px; }
.grid td, .grid th { padding: 3px 5px; text-align: center; }
.grid td:first-child { text-align: left; white-space: nowrap; }
.grid .cell { min-width: 18px; height: 22px; border: 1px solid var(--line); }
.scroll { max-height: 460px; overflow: auto; }
#tip { position: fixed; pointer-events: none; background: var(--card); color: var(--ink); border: 1px solid var(--line); border-radius: 8px;
  box-shadow: 0 6px 24px rgba(0, 0, 0, .25); padding: 8px 12px; font-size: 13px; max-width: 460px; display: none; overflow-wrap: anywhere; z-index: 9; }
</style>
</head>
<body>
<main id="page"><noscript>The plan is drawn by a script in this file.</noscript></main>
<div id="tip" role="tooltip"></div>
<script type="application/json" id="data">)page";
}

std::string_view PlanPageTail() {
  return R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const plan = data.plan, page = document.getElementById("page"), tip = document.getElementById("tip");
const TAGS = ["weights", "prepacked", "kv", "activations", "workspace", "staging", "overhead"];
const MEANING = {
  weights: "initializers, as the model stores them", prepacked: "weights in the layout that kernels read",
  kv: "key/value caches and other state", activations: "values between nodes", workspace: "scratch of kernels",
  staging: "copies in flight between devices", overhead: "buffers around the model" };

function el(name, attributes, ...children) {
  const svg = ["svg", "rect", "title"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  for (const c of children) e.append(c);
  return e;
}
function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let v = Math.abs(n), u = 0;
  while (v >= 1024 && u < 4) { v /= 1024; ++u; }
  return (n < 0 ? "−" : "") + (u ? v.toFixed(v < 10 ? 2 : 1) : v) + " " + units[u];
}
const color = tag => `var(--${tag})`;
const swatch = tag => el("span", { class: "swatch", style: `background:${color(tag)}` });
const layerName = n => n === null || n === undefined || n < 0 ? "outside of the layers" : "layer " + n;

function show(event, lines) {
  tip.replaceChildren(...lines.map((line, i) => el("div", i ? { class: "soft" } : {}, line)));
  tip.style.display = "block";
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = Math.max(x, 4) + "px";
  tip.style.top = Math.max(y, 4) + "px";
}
const hide = () => { tip.style.display = "none"; };

function header() {
  const theme = el("button", { type: "button", id: "theme" }, "light / dark");
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.title = "Memory plan: " + plan.model;
  page.append(el("header", {}, el("h1", {}, plan.model),
    el("span", { class: "verdict " + (plan.fits ? "yes" : "no"), id: "verdict" }, plan.fits ? "fits" : "does not fit"), theme));
  for (const p of plan.profiles)
    page.append(el("div", { class: "soft" }, p.name + ": " +
      Object.entries(p.bounds).map(([n, d]) => `${n} ≤ [${d.join(", ")}]`).join("   ")));
}

function device(d) {
  const total = d.planned_bytes, whole = Math.max(total, d.limit_bytes || 0) || 1;
  const bar = el("div", { class: "bar" });
  for (const tag of TAGS) {
    if (!d.tags[tag]) continue;
    const part = el("i", { style: `width:${100 * d.tags[tag] / whole}%;background:${color(tag)}`, "data-tag": tag });
    part.addEventListener("mousemove", e => show(e, [`${tag}: ${size(d.tags[tag])}`, MEANING[tag]]));
    part.addEventListener("mouseleave", hide);
    bar.append(part);
  }
  if (d.limit_bytes !== null) bar.append(el("div", { class: "limit", style: `left:calc(${100 * d.limit_bytes / whole}% - 1px)` }));
  const s = el("section", { class: "device" }, el("h2", {}, `${d.name}: ${size(total)} planned`), bar);
  const limit = d.limit_bytes === null ? "no limit" : total > d.limit_bytes
    ? `limit ${size(d.limit_bytes)}: ${size(total - d.limit_bytes)} short` : `limit ${size(d.limit_bytes)}: ${size(d.limit_bytes - total)} left`;
  s.append(el("div", { class: "soft" }, `${total.toLocaleString("en")} bytes · ${limit} · ${d.nodes} nodes` +
    (d.layers ? ` · layers ${d.layers}` : "") + `${d.weights_resident ? ` · weights ${d.weights_resident}` : ""} · no packing needs less than ${size(d.lower_bound_bytes)} (arena ${d.arena_ratio.toFixed(4)} of its lower bound)`));
  const legend = el("ul", { class: "legend" });
  for (const tag of TAGS)
    legend.append(el("li", { title: MEANING[tag] }, swatch(tag), tag, el("span", { class: "number soft" }, size(d.tags[tag]))));
  s.append(legend);
  return s;
}

function timeline(p) {
  const steps = p.steps.length || 1, height = p.arena_bytes || 1;
  const svg = el("svg", { viewBox: `0 0 ${steps} 1000`, preserveAspectRatio: "none", role: "img",
    "aria-label": `buffers of ${p.name} over its steps` });
  let peak = 0, live = new Array(steps).fill(0);
  p.buffers.forEach(([name, tag, offset, bytes, first, last], i) => {
    const y = 1000 * (1 - (offset + bytes) / height);
    const r = el("rect", { class: "buffer", x: first, y, width: last - first, height: 1000 * bytes / height, fill: color(tag), "data-i": i },
      el("title", {}, name));
    svg.append(r);
    for (let s = first; s < last; ++s) live[s] += bytes;
  });
  live.forEach((b, s) => { if (b > live[peak]) peak = s; });
  let on = null;
  svg.addEventListener("mousemove", e => {
    const r = e.target.closest("rect.buffer");
    if (on && on !== r) on.classList.remove("on");
    on = r;
    if (!r) return hide();
    r.classList.add("on");
    const [name, tag, offset, bytes, first, last] = p.buffers[+r.dataset.i];
    const step = p.steps[first] || ["", "", -1];
    show(e, [name, `${tag}, ${size(bytes)} at ${offset.toLocaleString("en")}`, `steps ${first} to ${last - 1} of ${steps}`,
      `made by ${step[1]} ${step[0]}, ${layerName(step[2])}`]);
  });
  svg.addEventListener("mouseleave", () => { if (on) on.classList.remove("on"); hide(); });
  const at = p.steps[peak] || ["", "", -1];
  return [el("h3", {}, `${p.name}: ${size(p.arena_bytes)} over ${p.steps.length} steps`), svg,
    el("div", { class: "axis" }, el("span", {}, "first step"),
      el("span", { class: "peak" }, `fullest at step ${peak} of ${steps}: ${size(live[peak] || 0)} live, ${at[1]} ${at[0]}`), el("span", {}, "last step"))];
}

function changes() {
  const s = el("section", { id: "changes" }, el("h2", {}, "What to change"));
  const total = plan.devices.reduce((n, d) => n + d.planned_bytes, 0);
  const rows = data.changes.map(c => el("tr", {}, el("td", {}, el("code", {}, c.change)), el("td", { class: "right number" }, size(c.planned_bytes)),
    el("td", { class: "right number" }, size(c.planned_bytes - total)), el("td", { class: "soft" }, c.fits === null ? "" : c.fits ? "fits" : "does not fit")));
  if (rows.length)
    s.append(el("table", {}, el("tr", {}, el("th", {}, "with"), el("th", { class: "right" }, "planned"), el("th", { class: "right" }, "difference"),
      el("th", {}, "")), ...rows));
  else
    s.append(el("p", { class: "soft" }, "The largest consumers below are what to look at: nothing else was planned."));
  const most = data.devices.flatMap(d => d.resident.concat(d.profiles.flatMap(p => p.buffers.map(b =>
    ({ tag: b[1], name: `${b[0]} (${p.name})`, bytes: b[3] }))))).sort((a, b) => b.bytes - a.bytes).slice(0, 12);
  s.append(el("h3", {}, "Largest consumers"), el("table", {}, ...most.map(c => el("tr", {}, el("td", {}, swatch(c.tag), " " + c.tag),
    el("td", { class: "name" }, c.name), el("td", { class: "right number" }, size(c.bytes))))));
  return s;
}

function layers(d) {
  const sums = new Map();
  for (const r of d.resident) {
    const key = r.layer === null ? -1 : r.layer;
    if (!sums.has(key)) sums.set(key, {});
    const row = sums.get(key);
    row[r.tag] = (row[r.tag] || 0) + r.bytes;
  }
  const keys = [...sums.keys()].sort((a, b) => a - b);
  if (keys.length < 2) return null;
  const sum = row => Object.values(row).reduce((a, b) => a + b, 0);
  const most = Math.max(...keys.map(k => sum(sums.get(k)))) || 1;
  const table = el("table", {}, el("tr", {}, el("th", {}, "layer"), el("th", { style: "width:50%" }, ""),
    ...["weights", "prepacked", "kv"].map(t => el("th", { class: "right" }, t)), el("th", { class: "right" }, "all")));
  for (const k of keys) {
    const row = sums.get(k), bar = el("div", { class: "bar", style: "height:14px;background:none" });
    for (const t of TAGS) if (row[t]) bar.append(el("i", { style: `width:${100 * row[t] / most}%;background:${color(t)}` }));
    table.append(el("tr", { class: "layer" }, el("td", {}, k < 0 ? "none" : String(k)), el("td", {}, bar),
      ...["weights", "prepacked", "kv"].map(t => el("td", { class: "right number soft" }, row[t] ? size(row[t]) : "")),
      el("td", { class: "right number" }, size(sum(row)))));
  }
  return el("section", {}, el("h2", {}, `Layers on ${d.name}`), el("div", { class: "scroll" }, table));
}

function grid() {
  if (plan.devices.length < 2) return null;
  const layers = [...new Set(data.grid.map(c => c.layer))].sort((a, b) => (a === null ? -1 : a) - (b === null ? -1 : b));
  const nodes = l => data.grid.filter(c => c.layer === l).reduce((n, c) => n + c.nodes, 0);
  const table = el("table", { class: "grid", id: "grid" },
    el("tr", {}, el("th", {}, ""), ...layers.map(l => el("th", {}, l === null ? "–" : String(l)))));
  plan.devices.forEach((d, i) => table.append(el("tr", {}, el("td", {}, d.name), ...layers.map(l => {
    const c = data.grid.find(x => x.device === i && x.layer === l);
    const cell = el("td", { class: "cell" });
    if (!c) return cell;
    cell.style.background = `color-mix(in srgb, var(--weights) ${Math.round(20 + 80 * c.nodes / nodes(l))}%, transparent)`;
    cell.addEventListener("mousemove", e => show(e, [`${layerName(l)} on ${d.name}`, `${c.nodes} of ${nodes(l)} nodes`, size(c.bytes) + " resident"]));
    cell.addEventListener("mouseleave", hide);
    return cell;
  }))));
  const copies = plan.copies.length;
  return el("section", {}, el("h2", {}, "Which device has which layer"), el("div", { class: "scroll" }, table),
    el("div", { class: "soft" }, copies ? `${copies} values cross from one device to another` : "no value crosses from one device to another"));
}

header();
const where = grid();
if (where) page.append(where);
for (const d of plan.devices) page.append(device(d));
page.append(changes());
for (const d of data.devices) {
  const s = el("section", {}, el("h2", {}, `Execution memory of ${d.name} over time`),
    el("div", { class: "soft" }, "Each block is a buffer: its width is its life, its height its size, its place its offset. " +
      "Profiles use the same memory, one after the other."));
  for (const p of d.profiles) s.append(...timeline(p));
  page.append(s);
  const table = layers(d);
  if (table) page.append(table);
}
document.body.dataset.ready = "1";
</script>
</body>
</html>
)page";
}

}  // namespace ullage::session
