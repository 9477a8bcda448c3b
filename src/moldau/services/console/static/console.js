// What pages cannot do without a script: keys, times in the viewer's zone, copying, charts, the record's panel.
// No text from the cluster becomes HTML here: it is set as text, or comes escaped from the server.
"use strict";

const ALL = (selector, root = document) => [...root.querySelectorAll(selector)];
const TIME = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3, hour12: false,
});

function showTimes(root) {
  for (const each of ALL("time[datetime]", root)) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const part = Object.fromEntries(TIME.formatToParts(at).map((one) => [one.type, one.value]));
    each.textContent = `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}.${part.fractionalSecond}`;
  }
}

// JSON in colours: tokens become elements with text in them.
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
function colourJson(root) {
  for (const each of ALL("pre[data-json]:not([data-coloured])", root)) {
    const text = each.textContent;
    each.dataset.coloured = "";
    if (text.length > 100000) continue;
    const made = document.createDocumentFragment();
    let from = 0;
    for (const found of text.matchAll(TOKEN)) {
      made.append(text.slice(from, found.index));
      const span = document.createElement("span");
      span.className = found[2] ? "j-name" : found[1] ? "j-text" : found[3] ? "j-number" : "j-word";
      span.textContent = found[1] || found[0];
      made.append(span);
      if (found[2]) made.append(found[2]);
      from = found.index + found[0].length;
    }
    made.append(text.slice(from));
    each.replaceChildren(made);
  }
}

const charts = new Map();
function drawCharts() {
  for (const [element, chart] of charts) {
    if (!element.isConnected) { chart.destroy(); charts.delete(element); }
  }
  for (const element of ALL("[data-chart]")) {
    const points = JSON.parse(element.dataset.chart);
    const data = [points.map((one) => one[0] / 1000), points.map((one) => one[1])];
    const known = charts.get(element);
    if (known && element.contains(known.root)) { known.setData(data); continue; }
    if (known) known.destroy();
    const style = getComputedStyle(document.documentElement);
    const line = style.getPropertyValue("--accent").trim(), grid = style.getPropertyValue("--line").trim();
    const clock = (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour12: false }));
    const axis = { stroke: style.getPropertyValue("--mute").trim(), grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui" };
    charts.set(element, new uPlot({
      width: element.clientWidth || 600, height: 180, cursor: { y: false }, legend: { show: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [{ ...axis, values: clock, space: 90, size: 28 }, { ...axis, size: 64 }],
      series: [{}, { label: element.dataset.name, stroke: line, width: 2, fill: line + "22", points: { show: false } }],
    }, data, element));
  }
}

function ready(root) {
  showTimes(root);
  colourJson(root);
  drawCharts();
}

// Keys
let waitsForPage = 0;
function isTyping(target) {
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
function moveRow(step) {
  const rows = ALL("table.rows a.row");
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + step))].focus();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
  if (isTyping(event.target)) return;
  if (Date.now() - waitsForPage < 1200) {
    waitsForPage = 0;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const search = document.querySelector("[data-search]");
  if (event.key === "g") waitsForPage = Date.now();
  else if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
  else if (event.key === "?") document.getElementById("keys").showModal();
  else if (event.key === "j") moveRow(1);
  else if (event.key === "k") moveRow(-1);
});

// Clicks
document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    const from = copy.dataset.copy ? copy.closest("article, section").querySelector(copy.dataset.copy) : copy.parentElement.querySelector("pre");
    navigator.clipboard.writeText(from.textContent).then(
      () => { copy.textContent = "Copied"; setTimeout(() => { copy.textContent = "Copy"; }, 1500); },
      () => { copy.textContent = "Not allowed"; });
    return;
  }
  if (event.target.closest("[data-theme-switch]")) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("moldau-theme", next); } catch { /* for this page only */ }
    for (const [element, chart] of charts) { chart.destroy(); charts.delete(element); }
    drawCharts();
    return;
  }
  const link = event.target.closest("a[data-panel]");
  const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
  if (link && plain) {
    event.preventDefault();
    htmx.ajax("GET", link.getAttribute("href"), { target: "#detail", select: "#record", swap: "innerHTML" });
  }
  for (const menu of ALL("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// Forms
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-from]")) return;
  for (const each of ALL("[data-for]")) each.classList.toggle("off", each.dataset.for !== event.target.value);
});
document.addEventListener("submit", (event) => { // empty fields stay out of the URL
  if (event.target.method !== "get") return;
  for (const each of ALL("input, select", event.target)) if (!each.value && each.type !== "hidden") each.disabled = true;
  setTimeout(() => { for (const each of ALL(":disabled", event.target)) each.disabled = false; });
});

// What htmx brings
document.addEventListener("htmx:beforeRequest", (event) => {
  const source = event.detail.elt;
  const polls = source.id === "live" && event.detail.requestConfig.triggeringEvent === undefined;
  if (source.id === "live" && (document.hidden || (polls && document.querySelector("details.menu[open]")))) event.preventDefault();
});
document.addEventListener("htmx:afterSwap", (event) => {
  const target = event.detail.target || event.target;
  if (target.id === "detail") {
    const panel = document.getElementById("panel");
    if (!panel.open) panel.showModal();
    panel.scrollTop = 0;
  }
  const most = Number(target.dataset.rowsMax || 0);
  while (most && target.rows.length > most) target.deleteRow(-1);
});
document.addEventListener("htmx:afterSettle", (event) => ready(event.target.isConnected ? event.target : document));
document.addEventListener("htmx:sseMessage", () => ready(document.getElementById("rows") || document));
addEventListener("resize", () => { for (const [element, chart] of charts) chart.setSize({ width: element.clientWidth, height: 180 }); });
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  ready(document);
});
