// One function per chart of a run.
const LONGEST_REASON = 90;
const named = (client) => label(client.name) + (client.label ? ` · ${label(client.label)}` : "");
const ticked = (client) => label(title(client), narrow() ? 16 : LONGEST); // an axis has less room
const because = (text) => (text ? label(text, LONGEST_REASON) : "");
const roundAxis = (rounds = run.rounds) => numeric("round", rounds, { whole: true, about: narrow() ? 5 : 10, format: String });
const dashes = ["", "7 4", "2 3", "8 3 2 3"];
const ROW = 17;

function drawMetrics() {
  const shown = run.metrics.filter(([, values]) => values.some(present)).slice(0, 2);
  document.getElementById("metric-figure").hidden = !shown.length;
  if (!shown.length) return;
  const [first, second] = shown;
  draw("metric-chart", `${first[0]} over ${run.rounds.length} rounds, at the end ${digits(first[1].at(-1))}.`, {
    x: roundAxis(), y: numeric(label(first[0]), first[1]), right: second && numeric(label(second[0]), second[1]),
    legend: shown.map(([name], place) => [label(name), series(place), dashes[place]]),
    paint: (frame) => shown.forEach(([name, values], place) => {
      const axis = place ? "right" : "y";
      line(frame, run.rounds, values, { shade: series(place), width: 2.5, dash: dashes[place], axis, key: place });
      values.forEach((value, at) => {
        if (!present(value)) return;
        const px = frame.x(run.rounds[at]), py = frame[axis](value);
        if (values.length < 2) frame.svg.append(marker(px, py, place, 4, series(place)));
        frame.hit(px, py, () => [`round ${run.rounds[at]}`, `${label(name)} ${digits(value)}`]);
      });
    }),
  });
}

function drawCourses() {
  const [, shown, values] = measures.find(([key]) => key === state.measure);
  const lines = clients.map(values), single = run.rounds.length < 2;
  draw("course-chart",
    `${shown} over ${run.rounds.length} rounds for ${clients.length} clients, ${state.selected.length} selected. The table below holds the means.`, {
    x: roundAxis(), y: numeric(shown, lines.flat(), { zero: true }), pick: toggle,
    legend: state.selected.length ? [["other clients", colour("faint")], ...state.selected.map((index, order) => [named(clients[index]), series(order), dashes[Math.floor(order / 8) % 4]])] : [],
    paint: (frame) => {
      const one = (index, style, symbol) => {
        const client = clients[index], rounds = roundsOf(client);
        line(frame, rounds, lines[index], { ...style, key: index });
        lines[index].forEach((value, step) => {
          if (!present(value)) return;
          const px = frame.x(rounds[step]), py = frame.y(value);
          if (single || (symbol !== null && rounds.length <= 40)) frame.svg.append(marker(px, py, symbol || 0, 3, style.shade));
          frame.hit(px, py, () => [named(client), `round ${rounds[step]}: ${digits(value)}`, because(reasonAt(client, step))], index);
        });
      };
      clients.forEach((_, index) => { if (!state.selected.includes(index)) one(index, { shade: colour("faint"), width: 1, opacity: clients.length > 60 ? 0.45 : 0.8 }, null); });
      state.selected.forEach((index, order) => one(index, { shade: series(order), width: 2.5, dash: dashes[Math.floor(order / 8) % 4] }, order));
    },
  });
}

function drawRanking() {
  const shades = ["c0", "c4", "c6"].map(colour), few = scored.length <= 60;
  const told = (client) => [named(client), `mean score ${digits(client.mean)} ± ${digits(client.half)}`, standings[standing(client)]];
  const means = numeric("mean score", scored.flatMap((index) => [clients[index].mean - (clients[index].half || 0), clients[index].mean + (clients[index].half || 0)]), { zero: true });
  const legend = standings.map((name, level) => [name, shades[level], undefined, level]).filter((_, level) => scored.some((index) => standing(clients[index]) === level));
  const spoken = `Mean scores of ${scored.length} clients with intervals; the table below holds the numbers.`;
  const paint = (frame) => scored.forEach((index, place) => {
    const client = clients[index], level = standing(client), shade = shades[level], half = client.half || 0;
    const at = (value) => (few ? [frame.x(value), frame.y(place)] : [frame.x(place + 1), frame.y(value)]);
    const [[x1, y1], [x2, y2], [px, py]] = [at(client.mean - half), at(client.mean + half), at(client.mean)];
    if (half) frame.add("line", { class: "interval", x1, y1, x2, y2, stroke: shade, "stroke-width": 1.3 });
    frame.svg.append(marker(px, py, level, few ? 4.5 : 3, shade));
    frame.hit(px, py, () => [`${named(client)}, rank ${place + 1}`, ...told(client).slice(1)], index);
  });
  const tagged = (index) => ticked(clients[index]) + (clients[index].flagged ? ` ⚑ ${clients[index].flagged} of ${clients[index].rounds}` : "");
  draw("rank-chart", spoken, few
    ? { x: means, y: names(scored.map(tagged)), down: true, height: Math.max(150, 60 + ROW * scored.length), legend, pick: toggle, paint }
    : { x: numeric("rank", [1, scored.length], { whole: true, about: 10, format: String }), y: means, legend, pick: toggle, paint });
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

function drawMap() {
  const slider = document.getElementById("map-round");
  document.getElementById("map-controls").hidden = !run.agreement.length;
  if (!run.agreement.length) {
    nothing("map-chart", "This run has no record of who agreed with whom: a ledger keeps it for scorers that compare pairs.");
    return;
  }
  const map = run.agreement[Math.min(Number(slider.value), run.agreement.length - 1)];
  document.getElementById("map-label").textContent = run.rounds[map.at];
  const ordered = map.order.map((place) => clients[map.clients[place]]);
  const values = unpacked(map), bound = Math.max(0.1, most(values.flat().map((value) => Math.abs(value || 0))));
  const square = (value) => Math.sign(value) * value * value, size = ordered.length;
  const [low, middle, high] = ["low", "middle", "high"].map(colour);
  const shade = (value) => (value === null ? null : mixed(middle, value < 0 ? low : high, Math.abs(value) / bound));
  const few = size <= (narrow() ? 14 : 44), rows = names(few ? ordered.map(ticked) : []);
  Object.assign(rows, { high: size - 0.5 });
  const box = document.getElementById("map-chart"), side = Math.min(box.clientWidth, 620);
  draw("map-chart", `Agreement of ${size} clients in round ${run.rounds[map.at]}, those who agree side by side.`, {
    x: { title: "", low: -0.5, high: size - 0.5, ticks: [], named: true }, y: rows, down: true, height: Math.max(240, side * 0.82),
    legend: [-1, -0.5, 0, 0.5, 1].map((share) => [square(share * bound).toPrecision(2), shade(share * bound), undefined, 2]),
    paint: (frame) => {
      cells(frame, size, size, (row, column) => shade(values[row][column]));
      frame.under = (px, py) => {
        const column = Math.floor(((px - frame.edge.left) / frame.inner.width) * size), row = Math.floor(((py - frame.edge.top) / frame.inner.height) * size);
        const value = values[row]?.[column];
        return present(value) ? [px, py, () => [`${named(ordered[row])} and ${named(ordered[column])}`, `agreement ${square(value).toFixed(4)}`]] : null;
      };
    },
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

function drawGroups() {
  if (!run.rounds.length) { nothing("group-chart", "No round has been recorded yet."); return; }
  const { total, count } = groupWeights();
  const all = run.rounds.map((_, place) => sum(count.map((line) => line[place])));
  const equal = count.length ? count[0].map((value, place) => (all[place] ? value / all[place] : null)) : [];
  // One round has no width: it is drawn from half a round before to half a round after.
  const wide = run.rounds.length < 2, spread = (values) => (wide ? [values[0], values[0]] : values);
  const rounds = wide ? [run.rounds[0] - 0.4, run.rounds[0] + 0.4] : run.rounds;
  draw("group-chart", `Share of the weight by group (${run.groupsAre}): ${run.groups.join(", ")}; the table below holds the numbers.`, {
    x: roundAxis(rounds), y: numeric("share of the weight", [0, 1], { low: 0, high: 1, format: (value) => `${Math.round(100 * value)} %` }),
    legend: [...run.groups.map((group, place) => [label(group), series(place), undefined, 2]), ...(run.groups.length > 1 ? [[`equal weights, ${label(run.groups[0])}`, colour("ink"), dashes[2]]] : [])],
    paint: (frame) => {
      let base = run.rounds.map(() => 0);
      total.forEach((values, place) => {
        const top = values.map((value, at) => value + base[at]);
        band(frame, rounds, spread(base), spread(top), { shade: series(place) });
        values.forEach((value, at) => { if (value) frame.hit(frame.x(run.rounds[at]), frame.y(base[at] + value / 2), () => [label(run.groups[place]), `round ${run.rounds[at]}: ${percent(value)}`]); });
        base = top;
      });
      if (run.groups.length > 1) line(frame, rounds, spread(equal), { shade: colour("ink"), width: 1.5, dash: dashes[2] });
    },
  });
}

const MOST_ROWS = 50;
function drawFlags() {
  if (!byReasons.length) { nothing("flag-chart", "Nobody was flagged."); return; }
  const rows = byReasons.slice(0, narrow() ? 25 : MOST_ROWS), columns = run.rounds.length;
  const why = rows.map((index) => {
    const line = Array(columns).fill(null), client = clients[index];
    client.at.forEach((place, step) => { line[place] = client.why[step] || 0; });
    return line;
  });
  const shades = [colour("line"), ...run.kinds.map((_, kind) => series(kind + 1))];
  const kindOf = (number) => (number ? run.reasons[number - 1][1] + 1 : 0);
  draw("flag-chart", `${byFlags.length} clients were flagged at least once, ${byReasons.length - byFlags.length} others had no weight or no pay; the table below says how often and why.`, {
    x: { ...roundAxis(), low: -0.5, high: columns - 0.5, ticks: roundAxis().ticks.map(([value]) => [run.rounds.indexOf(value), String(value)]).filter(([place]) => place >= 0) },
    y: names(rows.map((index) => ticked(clients[index]))), down: true, height: Math.max(130, 56 + ROW * rows.length),
    legend: run.kinds.map(([kind], place) => [label(kind, 44), series(place + 1), undefined, 2]),
    paint: (frame) => {
      cells(frame, columns, rows.length, (row, column) => (why[row][column] === null ? null : shades[kindOf(why[row][column])]));
      frame.under = (px, py) => {
        const column = Math.floor(((px - frame.edge.left) / frame.inner.width) * columns), row = Math.floor(((py - frame.edge.top) / frame.inner.height) * rows.length);
        const number = why[row]?.[column];
        return present(number) ? [px, py, () => [named(clients[rows[row]]), `round ${run.rounds[column]}`, because(number ? run.reasons[number - 1][0] : "not flagged")]] : null;
      };
    },
  });
}

function drawEvidence() {
  const clean = clients.filter((client) => !client.flagged && client.evidence.length);
  const shown = byFlags.filter((index) => clients[index].evidence.length).slice(0, MOST_SELECTED);
  document.getElementById("evidence-figure").hidden = !clean.length && !shown.length;
  if (!clean.length && !shown.length) return;
  const per = run.rounds.map(() => []);
  for (const client of clean) client.at.forEach((place, step) => per[place].push(client.evidence[step]));
  const [low, middle, high] = [0.1, 0.5, 0.9].map((share) => per.map((values) => quantile(values, share)));
  const lines = shown.map((index) => clients[index].evidence);
  draw("evidence-chart", "Evidence of private work over rounds: never-flagged clients as a band, the most flagged ones as lines.", {
    x: roundAxis(), y: numeric("evidence, −log₁₀ p", [...low, ...high, ...lines.flat()], { zero: true }), pick: toggle,
    legend: [...(clean.length ? [["never flagged, median and band", colour("c0")]] : []), ...shown.map((index, order) => [named(clients[index]), series(order + 1), dashes[order % 4]])],
    paint: (frame) => {
      band(frame, run.rounds, low, high, { shade: colour("c0"), opacity: 0.2 });
      line(frame, run.rounds, middle, { shade: colour("c0"), width: 2.5 });
      middle.forEach((value, at) => { if (present(value)) frame.hit(frame.x(run.rounds[at]), frame.y(value), () => ["never flagged, median", `round ${run.rounds[at]}: ${digits(value, 1)}`]); });
      shown.forEach((index, order) => {
        const rounds = roundsOf(clients[index]);
        line(frame, rounds, lines[order], { shade: series(order + 1), width: 1.3, dash: dashes[order % 4], key: index });
        lines[order].forEach((value, step) => { if (present(value)) frame.hit(frame.x(rounds[step]), frame.y(value), () => [named(clients[index]), `round ${rounds[step]}: ${digits(value, 1)}`], index); });
      });
    },
  });
}

function drawPayments() {
  const paid = clients.map((_, index) => index).filter((index) => clients[index].paid !== null);
  if (!paid.length) { nothing("pay-chart", "No payments were recorded: see --reward of fedmerit simulate."); return; }
  paid.sort((a, b) => clients[b].paid - clients[a].paid || a - b);
  const few = paid.length <= 60, groups = run.groups.map((_, place) => place).filter((place) => paid.some((index) => clients[index].group === place));
  const sums = numeric(few ? "" : "paid over the run", paid.map((index) => clients[index].paid), { zero: true });
  draw("pay-chart", `${amount(sum(paid.map((index) => clients[index].paid)))} paid to ${paid.filter((index) => clients[index].paid).length} clients; the ranking table holds the amounts.`, {
    ...(few ? { x: { ...sums, title: "paid over the run" }, y: names(paid.map((index) => ticked(clients[index]))), down: true, height: Math.max(150, 60 + ROW * paid.length) } : { x: numeric("clients, by what they are owed", [1, paid.length], { whole: true, about: 10, format: String }), y: sums }),
    legend: groups.map((place) => [label(run.groups[place]), series(place), undefined, 2]), pick: toggle,
    paint: (frame) => paid.forEach((index, place) => {
      const client = clients[index], shade = series(client.group);
      const [x0, y0, px, py] = few ? [frame.x(0), frame.y(place), frame.x(client.paid), frame.y(place)] : [frame.x(place + 1), frame.y(0), frame.x(place + 1), frame.y(client.paid)];
      frame.add("line", { class: "bar", x1: x0, y1: y0, x2: px, y2: py, stroke: shade, "stroke-width": few ? ROW - 6 : Math.max(1, (0.8 * frame.inner.width) / paid.length) });
      frame.hit(px, py, () => [named(client), amount(client.paid), client.paid ? "" : because(client.kinds.map(([kind]) => kind).join(", "))], index);
    }),
  });
}

function drawCertificate() {
  const per = run.rounds.map(() => []);
  for (const client of clients)
    client.epsilon.forEach((value, step) => { if (value !== null) per[client.at[step]].push(value); });
  const known = per.some((values) => values.length), text = document.getElementById("certificate-text");
  document.getElementById("epsilon-figure").hidden = !known;
  if (!known) {
    text.textContent = "The scorer of this run gives no truthfulness certificate. The methods exact and conditional do, and fedmerit audit searches for lies that pay under any method.";
    return;
  }
  const lines = [["median", 0.5], ["largest", 1]].map(([name, share]) => [name, per.map((values) => quantile(values, share))]);
  const largest = most(per.flat());
  text.textContent = `In no round could a client have raised its score by more than ${largest.toPrecision(3)} by re-labelling its own signals.`;
  draw("epsilon-chart", `Certificate epsilon over rounds, at most ${largest.toPrecision(3)}.`, {
    x: roundAxis(), y: numeric("epsilon", per.flat(), { zero: true }), legend: lines.map(([name], place) => [name, series(place), dashes[place]]),
    paint: (frame) => lines.forEach(([name, values], place) => {
      line(frame, run.rounds, values, { shade: series(place), dash: dashes[place], key: place });
      values.forEach((value, at) => { if (present(value)) frame.hit(frame.x(run.rounds[at]), frame.y(value), () => [name, `round ${run.rounds[at]}: ${digits(value, 5)}`]); });
    }),
  });
}

// Every chart of a run, by its place in run.html.
const charts = Object.entries({
  "metric-chart": drawMetrics, "course-chart": drawCourses, "rank-chart": drawRanking, "map-chart": drawMap, "group-chart": drawGroups,
  "flag-chart": drawFlags, "evidence-chart": drawEvidence, "pay-chart": drawPayments, "epsilon-chart": drawCertificate,
});
