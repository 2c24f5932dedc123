// Two runs: who changed rank, weight and pay, and what became of the model.
const page = JSON.parse(document.getElementById("data").textContent);
const SHOWN = 40;
let both = null, words = "";

const totalWeight = (data) => sum(data.clients.map((client) => sum(client.weight))) || 1;
function facts(data) {
  const total = totalWeight(data), found = new Map();
  let rank = 0;
  for (const client of data.clients)
    found.set(client.name, { rank: client.mean === null ? null : (rank += 1), weight: sum(client.weight) / total, paid: client.paid, flagged: client.flagged, label: client.label });
  return found;
}
const changed = (before, after) => (present(before) && present(after) ? after - before : null);
function difference(value, show, better) {
  if (value === null || value === 0) return document.createTextNode(value === 0 ? "=" : "");
  return element("span", `${value > 0 ? "+" : "−"}${show(Math.abs(value))}`, { class: value > 0 === better ? "up" : "down" });
}

// The first measure that both runs know; the loss only if there is no other.
function shared([first, second]) {
  const known = second.metrics.filter(([, values]) => values.some(present)).map(([name]) => name);
  const common = first.metrics.filter(([name, values]) => known.includes(name) && values.some(present)).map(([name]) => name);
  return common.find((name) => name !== "loss") || common[0];
}

function showBoth(...data) {
  both = data;
  const [first, second] = data, [before, after] = data.map(facts);
  document.getElementById("subtitle").textContent = `${first.title} (A) and ${second.title} (B)`;
  const metric = shared(data), last = (one) => one.metrics.find(([name]) => name === metric)?.[1].filter(present).at(-1);
  const pay = (one) => (one.clients.some((client) => client.paid !== null) ? sum(one.clients.map((client) => client.paid)) : null);
  const count = (one) => one.clients.filter((client) => client.flagged).length;
  const pair = (name, values, show) => {
    const texts = values.map((value) => (present(value) ? show(value) : "–")), same = texts[0] === texts[1];
    return tile(name, same ? texts[0] : texts.join(" → "), same ? "in both" : "A → B");
  };
  document.getElementById("tiles").replaceChildren(
    pair("rounds", data.map((one) => one.rounds.length), String),
    ...(metric ? [pair(metric, data.map(last), (value) => digits(value, 3))] : []),
    pair("clients", data.map((one) => one.clients.length), String),
    pair("flagged at least once", data.map(count), String),
    pair("paid", data.map(pay), amount),
  );
  if (metric) drawModels(metric, data);
  else nothing("metric-chart", "The two runs have no measure of the model in common.");
  const rows = [...new Set([...before.keys(), ...after.keys()])].map((name) => {
    const a = before.get(name) || {}, b = after.get(name) || {};
    return { name, label: b.label || a.label, a, b, rank: changed(a.rank, b.rank), weight: changed(a.weight, b.weight), paid: changed(a.paid, b.paid) };
  });
  drawWeights(rows);
  const number = (title, value, show) => ({ title, number: true, value, show });
  const side = (one, part, show) => number(`${part === "paid" ? "Paid" : part === "rank" ? "Rank" : part === "weight" ? "Weight" : "Flagged"} ${one.toUpperCase()}`, (row) => row[one][part] ?? null, (row) => (present(row[one][part]) ? show(row[one][part]) : ""));
  fillTable("compare-table", [
    { title: "Client", head: true, value: (row) => row.name, show: (row) => { const box = element("span", visible(row.name)); if (row.label) box.append(" ", element("span", visible(row.label), { class: "muted small" })); return box; } },
    side("a", "rank", String), side("b", "rank", String), number("Rank ±", (row) => row.rank, (row) => difference(row.rank, String, false)),
    side("a", "weight", percent), side("b", "weight", percent), number("Weight ±", (row) => row.weight, (row) => difference(row.weight, percent, true)),
    side("a", "paid", amount), side("b", "paid", amount), number("Paid ±", (row) => row.paid, (row) => difference(row.paid, amount, true)),
    side("a", "flagged", String), side("b", "flagged", String),
  ], rows.filter((row) => [row.name, row.label || ""].some((text) => text.toLowerCase().includes(words))));
}

function drawModels(metric, data) {
  const lines = data.map((one) => one.metrics.find(([name]) => name === metric)[1]);
  draw("metric-chart", `${metric} over rounds in both runs.`, {
    x: numeric("round", data.flatMap((one) => one.rounds), { whole: true, about: 10, format: String }), y: numeric(label(metric), lines.flat()),
    legend: data.map((one, place) => [`${"AB"[place]}: ${label(one.title, 40)}`, series(place), ["", "7 4"][place]]),
    paint: (frame) => data.forEach((one, place) => {
      line(frame, one.rounds, lines[place], { shade: series(place), width: 2.5, dash: ["", "7 4"][place], key: place });
      lines[place].forEach((value, at) => { if (present(value)) frame.hit(frame.x(one.rounds[at]), frame.y(value), () => [`${"AB"[place]}: ${label(one.title, 40)}`, `round ${one.rounds[at]}: ${digits(value)}`]); });
    }),
  });
}

function drawWeights(rows) {
  const shown = rows.filter((row) => row.weight !== null).sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, SHOWN);
  if (!shown.length) { nothing("weight-chart", "The two runs have no client in common."); return; }
  const name = (row) => label(row.label ? `${row.name} · ${row.label}` : row.name, narrow() ? 16 : 28);
  draw("weight-chart", `Share of the weight of ${shown.length} clients in both runs; the table below holds the numbers.`, {
    x: numeric("share of the weight", shown.flatMap((row) => [row.a.weight, row.b.weight]), { zero: true, format: (value) => `${short(100 * value)} %` }),
    y: { title: "", low: -0.5, high: shown.length - 0.5, ticks: shown.map((row, place) => [place, name(row)]), named: true }, down: true, height: Math.max(150, 60 + 17 * shown.length),
    legend: [["A", series(0), undefined, 0], ["B", series(1), undefined, 2]],
    paint: (frame) => shown.forEach((row, place) => {
      const y = frame.y(place), ends = [frame.x(row.a.weight), frame.x(row.b.weight)];
      frame.add("line", { x1: ends[0], x2: ends[1], y1: y, y2: y, stroke: colour("faint"), "stroke-width": 2 });
      ends.forEach((px, one) => frame.svg.append(marker(px, y, 2 * one, 4.5, series(one))));
      ends.forEach((px) => frame.hit(px, y, () => [name(row), `A ${percent(row.a.weight)}, B ${percent(row.b.weight)}`]));
    }),
  });
}

showTheme(currentTheme());
const again = () => { if (both) showBoth(...both); };
themeListeners.push(again);
let width = innerWidth;
addEventListener("resize", () => { if (width !== innerWidth) again(); width = innerWidth; });
document.getElementById("search").addEventListener("input", (event) => { words = event.target.value.trim().toLowerCase(); again(); });
follow([page.a, page.b], (...data) => { showBoth(...data); root.dataset.ready = "true"; });
