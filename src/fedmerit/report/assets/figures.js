// One function per chart.
const LONGEST_REASON = 90;
const named = (client) => label(client.name) + (client.label ? ` · ${label(client.label)}` : "");
const ticked = (client) => label(title(client)); // an axis has less room
const because = (text) => (text ? `<br>${label(text, LONGEST_REASON)}` : "");
const rounds = (extra) => axis("round", { zeroline: false, tickformat: "d", ...(run.rounds.length < 8 ? { tickvals: run.rounds } : {}), ...extra });

async function drawMetrics() {
  const shown = run.metrics.filter(([, values]) => values.some((value) => value !== null));
  if (!shown.length) { document.getElementById("metric-figure").hidden = true; return; }
  const [first, ...rest] = shown;
  const traces = shown.slice(0, 2).map(([name, values], index) => ({
    x: run.rounds, y: values, name: label(name), mode: run.rounds.length > 1 ? "lines" : "markers", yaxis: index ? "y2" : "y",
    line: { color: series(index), width: 2.5, dash: dashes[index] },
    hovertemplate: `round %{x}: ${label(name)} %{y:.4f}<extra></extra>`,
  }));
  await draw("metric-chart", `${first[0]} over ${run.rounds.length} rounds, at the end ${digits(first[1].at(-1))}.`, traces, {
    xaxis: rounds(), yaxis: axis(label(first[0])),
    yaxis2: axis(rest.length ? label(rest[0][0]) : "", { overlaying: "y", side: "right", showgrid: false, tickmode: "auto", tickformat: ".2~f" }),
    showlegend: shown.length > 1,
  });
}

async function drawCourses() {
  const [, shown, values] = measures.find(([key]) => key === state.measure);
  const grey = { x: [], y: [], text: [], customdata: [] };
  clients.forEach((client, index) => {
    if (state.selected.includes(index)) return;
    const line = values(client), name = `<b>${named(client)}</b>`;
    client.at.forEach((place, step) => {
      grey.x.push(run.rounds[place]); grey.y.push(line[step] ?? null); grey.text.push(name + because(reasonAt(client, step))); grey.customdata.push(index);
    });
    grey.x.push(null); grey.y.push(null); grey.text.push(""); grey.customdata.push(-1);
  });
  const single = run.rounds.length < 2;
  const hovertemplate = "%{text}<br>round %{x}: %{y:.4~f}<extra></extra>";
  const traces = [{
    ...grey, mode: single ? "markers" : "lines", name: "other clients", hovertemplate, connectgaps: false,
    line: { color: colour("faint"), width: 1 }, opacity: clients.length > 60 ? 0.45 : 0.8,
  }];
  state.selected.forEach((index, order) => {
    const client = clients[index];
    traces.push({
      x: roundsOf(client), y: values(client), text: client.at.map((_, step) => `<b>${named(client)}</b>${because(reasonAt(client, step))}`), customdata: client.at.map(() => index),
      name: named(client), mode: client.at.length > 40 ? "lines" : "lines+markers", hovertemplate,
      line: { color: series(order), width: 2.5, dash: dashes[Math.floor(order / 8) % 4] },
      marker: { symbol: symbols[order % 8], size: 6 },
    });
  });
  const element = await draw("course-chart",
    `${shown} over ${run.rounds.length} rounds for ${clients.length} clients, ${state.selected.length} selected. The table below holds the means.`,
    traces, { xaxis: rounds(), yaxis: axis(shown), showlegend: !narrow() && state.selected.length > 0 });
  onClick(element);
}

async function drawRanking() {
  const traces = standings.map((name, level) => {
    const places = scored.filter((index) => standing(clients[index]) === level);
    return {
      x: places.map((index) => scored.indexOf(index) + 1), y: places.map((index) => clients[index].mean),
      error_y: { type: "data", array: places.map((index) => clients[index].half), thickness: 1.2, width: scored.length > 60 ? 0 : 3, color: colour(["c0", "c4", "c6"][level]) },
      text: places.map((index) => `<b>${named(clients[index])}</b><br>rank ${scored.indexOf(index) + 1}`), customdata: places,
      name, mode: "markers", marker: { color: colour(["c0", "c4", "c6"][level]), symbol: symbols[level], size: scored.length > 60 ? 6 : 9 },
      hovertemplate: "%{text}: %{y:.4f} ± %{error_y.array:.4f}<extra></extra>",
    };
  }).filter((trace) => trace.x.length);
  const few = scored.length <= (narrow() ? 12 : 40);
  const element = await draw("rank-chart", `Mean scores of ${scored.length} clients with intervals; the table below holds the numbers.`, traces, {
    xaxis: axis(few ? "" : "rank", few ? { tickvals: scored.map((_, place) => place + 1), ticktext: scored.map((index) => ticked(clients[index])), tickangle: scored.length > 12 ? -45 : 0, showgrid: false } : { showgrid: false }),
    yaxis: axis("mean score"), showlegend: true,
  });
  onClick(element);
}

function unpacked(map) {
  const bytes = Uint8Array.from(atob(map.pairs), (char) => char.charCodeAt(0));
  const size = map.clients.length, matrix = Array.from({ length: size }, () => Array(size).fill(null));
  let place = 0;
  for (let i = 0; i < size; i++)
    for (let j = i + 1; j < size; j++) {
      const code = (bytes[place++] << 24) >> 24; // signed
      matrix[i][j] = matrix[j][i] = code === -128 ? null : code / 127; // square root of the agreement
    }
  return map.order.map((i) => map.order.map((j) => matrix[i][j]));
}

async function drawMap() {
  if (!run.agreement.length) {
    document.getElementById("map-controls").hidden = true;
    nothing("map-chart", "This run has no record of who agreed with whom: a ledger keeps it for scorers that compare pairs.");
    return;
  }
  const slider = document.getElementById("map-round");
  const map = run.agreement[Number(slider.value)];
  document.getElementById("map-label").textContent = run.rounds[map.at];
  const ordered = map.order.map((place) => clients[map.clients[place]]);
  const z = unpacked(map), bound = Math.max(0.1, ...z.flat().map((value) => Math.abs(value || 0)));
  const square = (value) => Math.sign(value) * value * value;
  const ticks = [-1, -0.5, 0, 0.5, 1].map((share) => share * bound);
  const names = ordered.map(named), places = names.map((_, place) => place);
  const few = names.length <= (narrow() ? 14 : 44);
  const labels = few ? { tickvals: places, ticktext: ordered.map(ticked) } : { showticklabels: false, ticks: "" };
  await draw("map-chart", `Agreement of ${names.length} clients in round ${run.rounds[map.at]}, those who agree side by side.`, [{
    type: "heatmap", z, x: places, y: places, zmin: -bound, zmax: bound, xgap: few ? 1 : 0, ygap: few ? 1 : 0, hoverongaps: false,
    text: z.map((row, i) => row.map((value, j) => `${names[i]} and ${names[j]}<br>agreement ${value === null ? "" : square(value).toFixed(4)}`)),
    hovertemplate: "%{text}<extra></extra>",
    colorscale: [[0, colour("low")], [0.5, colour("middle")], [1, colour("high")]],
    colorbar: { orientation: "h", x: 0.5, xanchor: "center", y: 1.01, yanchor: "bottom", len: narrow() ? 0.9 : 0.45, thickness: 10, outlinewidth: 0, tickvals: ticks, ticktext: ticks.map((tick) => square(tick).toPrecision(2)), title: { text: "agreement", side: "top", font: { size: 11 } }, tickfont: { size: 10 } },
  }], {
    xaxis: axis("", { ...labels, tickangle: -60, showgrid: false, zeroline: false, constrain: "domain" }),
    yaxis: axis("", { ...labels, autorange: "reversed", showgrid: false, zeroline: false, scaleanchor: "x", constrain: "domain" }),
    margin: { l: 20, r: 10, t: 12, b: 20 },
  });
}

function groupWeights() {
  const total = run.groups.map(() => run.rounds.map(() => 0)), count = run.groups.map(() => run.rounds.map(() => 0));
  for (const client of clients)
    client.at.forEach((place, step) => {
      if (client.weight[step] === null) return;
      total[client.group][place] += client.weight[step];
      count[client.group][place] += 1;
    });
  return { total, count };
}

async function drawGroups() {
  const { total, count } = groupWeights();
  const all = run.rounds.map((_, place) => sum(count.map((line) => line[place])));
  const single = run.rounds.length < 2;
  const traces = run.groups.map((group, index) => ({
    x: run.rounds, y: total[index], name: label(group), ...(single ? { type: "bar" } : { mode: "lines", stackgroup: "all" }),
    line: { width: 0.5, color: series(index) }, fillcolor: series(index), marker: { color: series(index) },
    hovertemplate: `round %{x}<br>${label(group)}: %{y:.1%}<extra></extra>`,
  }));
  if (run.groups.length > 1)
    traces.push({
      x: run.rounds, y: count[0].map((value, place) => (all[place] ? value / all[place] : null)), mode: "lines",
      name: `equal weights, ${label(run.groups[0])}`, line: { color: colour("ink"), width: 1.5, dash: "dot" },
      hovertemplate: "round %{x}<br>equal weights: %{y:.1%}<extra></extra>",
    });
  await draw("group-chart", `Share of the weight by group (${run.groupsAre}): ${run.groups.join(", ")}; the table below holds the numbers.`, traces, {
    xaxis: rounds(), yaxis: axis("share of the weight", { tickformat: ".0%", range: [0, 1] }), barmode: "stack", showlegend: true,
  });
}

const MOST_ROWS = 50;
async function drawFlags() {
  if (!byReasons.length) { nothing("flag-chart", "Nobody was flagged."); return; }
  const rows = byReasons.slice(0, narrow() ? 25 : MOST_ROWS), names = rows.map((index) => named(clients[index]));
  const blank = () => rows.map(() => run.rounds.map(() => null));
  const z = blank(), text = blank(), steps = run.kinds.length;
  rows.forEach((index, row) => {
    const client = clients[index];
    client.at.forEach((place, step) => {
      const reason = client.why[step] ? run.reasons[client.why[step] - 1] : null;
      z[row][place] = reason ? reason[1] + 1 : 0;
      text[row][place] = `<b>${names[row]}</b>, round ${run.rounds[place]}${because(reason ? reason[0] : "not flagged")}`;
    });
  });
  const shades = [colour("line"), ...run.kinds.map((_, kind) => series(kind + 1))];
  const scale = shades.flatMap((shade, step) => [[step / (steps + 1), shade], [(step + 1) / (steps + 1), shade]]);
  const element = document.getElementById("flag-chart");
  element.style.height = `${Math.max(190, 110 + 17 * rows.length)}px`;
  const keys = run.kinds.map(([kind], index) => ({ x: [null], y: [null], name: label(kind), mode: "markers", marker: { symbol: "square", size: 10, color: series(index + 1) } }));
  await draw("flag-chart", `${byFlags.length} clients were flagged at least once, ${byReasons.length - byFlags.length} others had no weight or no pay; the table below says how often and why.`, [{
    type: "heatmap", z, text, x: run.rounds, y: rows.map((_, row) => row), zmin: -0.5, zmax: steps + 0.5, showscale: false, colorscale: scale,
    xgap: run.rounds.length > 80 ? 0 : 1, ygap: 2, hoverongaps: false, hovertemplate: "%{text}<extra></extra>",
  }, ...keys], {
    xaxis: rounds({ showgrid: false }),
    yaxis: axis("", { tickvals: rows.map((_, row) => row), ticktext: rows.map((index) => ticked(clients[index])), autorange: "reversed", showgrid: false, zeroline: false }), showlegend: true,
  });
}

async function drawEvidence() {
  const clean = clients.filter((client) => !client.flagged && client.evidence.length);
  const shown = byFlags.filter((index) => clients[index].evidence.length).slice(0, MOST_SELECTED);
  if (!clean.length && !shown.length) { document.getElementById("evidence-figure").hidden = true; return; }
  const per = run.rounds.map(() => []);
  for (const client of clean) client.at.forEach((place, step) => per[place].push(client.evidence[step]));
  const line = (share) => per.map((values) => quantile(values, share));
  const band = { x: run.rounds, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const traces = clean.length ? [
    { ...band, y: line(0.1) },
    { ...band, y: line(0.9), fill: "tonexty", fillcolor: colour("c0") + "33" },
    { x: run.rounds, y: line(0.5), name: "never flagged, median", mode: "lines", line: { color: colour("c0"), width: 2.5 }, hovertemplate: "round %{x}: median %{y:.1f}<extra></extra>" },
  ] : [];
  shown.forEach((index, order) => {
    const client = clients[index];
    traces.push({ x: roundsOf(client), y: client.evidence, text: client.at.map(() => named(client)), name: named(client), mode: "lines+markers", marker: { size: 4, symbol: symbols[order % 8] },
      line: { color: series(order + 1), width: 1.3, dash: dashes[order % 4] }, hovertemplate: "<b>%{text}</b><br>round %{x}: %{y:.1f}<extra></extra>" });
  });
  await draw("evidence-chart", "Evidence of private work over rounds: never-flagged clients as a band, the most flagged ones as lines.", traces, {
    xaxis: rounds(), yaxis: axis("evidence, −log₁₀ p"), showlegend: !narrow(),
  });
}

async function drawPayments() {
  const paid = clients.map((_, index) => index).filter((index) => clients[index].paid !== null);
  if (!paid.length) { nothing("pay-chart", "No payments were recorded: see --reward of fedmerit simulate."); return; }
  paid.sort((a, b) => clients[b].paid - clients[a].paid || a - b);
  const few = paid.length <= (narrow() ? 12 : 40);
  const traces = run.groups.map((group, number) => {
    const here = paid.filter((index) => clients[index].group === number);
    return { type: "bar", name: label(group), x: here.map((index) => paid.indexOf(index) + 1), y: here.map((index) => clients[index].paid), text: here.map((index) => `<b>${named(clients[index])}</b>${clients[index].paid ? "" : because(clients[index].kinds.map(([kind]) => kind).join(", "))}`),
      textposition: "none", customdata: here, marker: { color: series(number) }, hovertemplate: "%{text}<br>%{y:,}<extra></extra>" };
  }).filter((trace) => trace.x.length);
  const total = sum(paid.map((index) => clients[index].paid));
  const element = await draw("pay-chart", `${amount(total)} paid to ${paid.filter((index) => clients[index].paid).length} clients; the ranking table holds the amounts.`, traces, {
    xaxis: axis(few ? "" : "clients, by what they are owed", few ? { tickvals: paid.map((_, place) => place + 1), ticktext: paid.map((index) => ticked(clients[index])), tickangle: paid.length > 12 ? -45 : 0, showgrid: false } : { showgrid: false }),
    yaxis: axis("paid over the run", { tickformat: "~s" }), bargap: 0.25, showlegend: true,
  });
  onClick(element);
}

async function drawCertificate() {
  const per = run.rounds.map(() => []);
  for (const client of clients)
    client.epsilon.forEach((value, step) => { if (value !== null) per[client.at[step]].push(value); });
  const known = per.some((values) => values.length), text = document.getElementById("certificate-text");
  if (!known) {
    text.textContent = "The scorer of this run gives no truthfulness certificate. The methods exact and conditional do, and fedmerit audit searches for lies that pay under any method.";
    document.getElementById("epsilon-figure").hidden = true;
    return;
  }
  const largest = Math.max(...per.flat());
  text.textContent = `In no round could a client have raised its score by more than ${largest.toPrecision(3)} by re-labelling its own signals.`;
  const line = (share, name, index) => ({ x: run.rounds, y: per.map((values) => quantile(values, share)), name, mode: "lines+markers", marker: { size: 4 }, line: { color: series(index), width: 2, dash: dashes[index] }, hovertemplate: `round %{x}: ${name} %{y:.5f}<extra></extra>` });
  await draw("epsilon-chart", `Certificate epsilon over rounds, at most ${largest.toPrecision(3)}.`, [line(0.5, "median", 0), line(1, "largest", 1)], { xaxis: rounds(), yaxis: axis("epsilon"), showlegend: true });
}
