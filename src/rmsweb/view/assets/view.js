// Filters of the list, steps of a story. The pages are whole without it: it only hides and moves.
"use strict";

const store = {
  get(name) { try { return JSON.parse(sessionStorage.getItem(name)); } catch { return null; } },
  set(name, value) { try { sessionStorage.setItem(name, JSON.stringify(value)); } catch { /* no storage: no memory */ } },
};

// As `headline` of index.py: every model by itself, controls apart.
function headline(part, models, controls) {
  const said = (groups) => [...groups].filter(([, one]) => one.judged).map(([name, one]) => `${name} ${one.solved} of ${one.judged}`);
  if (models.size === 1 && !said(controls).length) {
    const [one] = models.values();
    return one.judged ? `${part}, ${one.solved} of ${one.judged} judged ones solved` : part;
  }
  const lines = [part];
  if (said(models).length) lines.push(`solved of judged ones: ${said(models).join(", ")}`);
  if (said(controls).length) lines.push(`controls: ${said(controls).join(", ")}`);
  return lines.join("; ");
}

function list() {
  const rows = [...document.querySelectorAll("#rows tbody tr")];
  const selects = [...document.querySelectorAll("select[data-filter]")];
  const search = document.getElementById("search");
  const form = document.getElementById("filters");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());

  function remember() {
    const wanted = new URLSearchParams();
    for (const select of selects) if (select.value) wanted.set(select.dataset.filter, select.value);
    if (search.value) wanted.set("q", search.value);
    history.replaceState(null, "", wanted.size ? `#${wanted}` : location.pathname);
  }

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = [];
    const models = new Map(), controls = new Map();
    for (const row of rows) {
      const fits = selects.every((s) => !s.value || row.getAttribute(`data-${s.dataset.filter}`) === s.value)
        && words.every((word) => row.dataset.text.includes(word));
      row.hidden = !fits;
      if (!fits) continue;
      shown.push(row.dataset.key);
      const groups = row.hasAttribute("data-control") ? controls : models;
      if (!groups.has(row.dataset.group)) groups.set(row.dataset.group, { solved: 0, judged: 0 });
      const counts = groups.get(row.dataset.group);
      if (row.dataset.verdict !== "no verdict") counts.judged += 1;
      if (row.dataset.verdict === "solved") counts.solved += 1;
    }
    const part = shown.length === rows.length ? `${rows.length} trajectories` : `${shown.length} of ${rows.length} trajectories`;
    document.getElementById("count").textContent = headline(part, models, controls);
    document.getElementById("none").hidden = shown.length > 0;
    store.set("order", shown);
  }

  const wanted = new URLSearchParams(location.hash.slice(1) || store.get("filters") || "");
  for (const select of selects) {
    const value = wanted.get(select.dataset.filter) || "";
    if ([...select.options].some((option) => option.value === value)) select.value = value;
  }
  search.value = wanted.get("q") || "";
  const changed = () => { remember(); store.set("filters", location.hash.slice(1)); apply(); };
  for (const control of [...selects, search]) control.addEventListener("input", changed);
  apply();
}

function story() {
  const steps = [...document.querySelectorAll(".step")];
  const tabs = [...document.querySelectorAll(".film a")];
  document.documentElement.classList.add("js");
  let current = -1;

  function go(index, write = true) {
    const next = Math.max(0, Math.min(steps.length - 1, index));
    if (next === current) return;
    current = next;
    steps.forEach((step, i) => step.classList.toggle("current", i === current));
    tabs.forEach((tab, i) => {
      tab.classList.toggle("current", i === current);
      tab.setAttribute("aria-selected", String(i === current));
    });
    if (tabs[current]) tabs[current].scrollIntoView({ block: "nearest", inline: "nearest" });
    if (write) history.replaceState(null, "", `#${steps[current].id}`);
  }

  const named = () => steps.findIndex((step) => `#${step.id}` === location.hash);
  addEventListener("hashchange", () => { if (named() >= 0) go(named(), false); });
  go(Math.max(0, named()), false);

  // Neighbours follow the list as it was filtered last.
  const order = store.get("order") || [];
  const place = order.indexOf(document.body.dataset.key);
  const turn = document.querySelector(".turn");
  if (place >= 0) {
    turn.textContent = "";
    for (const [rel, label, title, key] of [["prev", "previous", "\u2191", order[place - 1]], ["next", "next", "\u2193", order[place + 1]]]) {
      if (!key) continue;
      const link = document.createElement("a");
      link.rel = rel;
      link.href = document.body.dataset.pattern.replace("KEY", key);
      link.textContent = label;
      link.title = title;
      turn.append(link);
    }
  }
  const follow = (selector) => { const link = document.querySelector(selector); if (link) location.href = link.href; };
  const keys = {
    ArrowRight: () => go(current + 1), ArrowLeft: () => go(current - 1), Home: () => go(0), End: () => go(steps.length - 1),
    ArrowDown: () => follow(".turn a[rel=next]"), ArrowUp: () => follow(".turn a[rel=prev]"), Escape: () => follow("#home"),
  };
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

if (document.body.classList.contains("list")) list(); else story();
