// The tables of a run.
function badges(client) {
  const box = element("span");
  for (const [kind, times] of client.kinds) {
    const bad = run.kinds.some(([words, against]) => against && words === kind);
    box.append(element("span", `${kind} × ${times}`, { class: bad ? "badge bad" : "badge" }));
  }
  return box;
}
function nameCell(client) {
  const box = element("span");
  box.append(element("a", visible(client.name), { href: addressOf(client), title: "this client's own page" }));
  if (client.label) box.append(" ", element("span", visible(client.label), { class: "muted small", title: "how the client calls itself" }));
  return box;
}

function fillRanking() {
  const words = state.search.toLowerCase();
  const rows = clients.map((client, index) => ({ client, index })).filter(({ client }) => found(client, words));
  const weight = (client) => sum(client.weight), all = sum(clients.map(weight)) || 1;
  const paid = clients.some((client) => client.paid !== null);
  const columns = [
    { title: "Select", show: ({ client, index }) => {
      const box = element("input", null, { type: "checkbox", "aria-label": `select ${title(client)}` });
      box.checked = state.selected.includes(index);
      box.addEventListener("change", () => toggle(index));
      return box;
    } },
    { title: "Rank", number: true, value: ({ index }) => index + 1 },
    { title: "Client", head: true, value: ({ client }) => client.name, show: ({ client }) => nameCell(client) },
    { title: run.groupsAre === "flags" ? "Group" : "Behaviour", value: ({ client }) => run.groups[client.group] },
    { title: "Rounds", number: true, value: ({ client }) => client.rounds },
    { title: "Mean score", number: true, value: ({ client }) => client.mean, show: ({ client }) => digits(client.mean) },
    { title: "± 95 %", number: true, value: ({ client }) => client.half, show: ({ client }) => digits(client.half) },
    { title: "Share of weight", number: true, value: ({ client }) => weight(client), show: ({ client }) => percent(weight(client) / all) },
    { title: "Flagged", number: true, value: ({ client }) => client.flagged, show: ({ client }) => (client.rounds ? `${client.flagged} of ${client.rounds}` : "") },
    { title: "Rejected", number: true, value: ({ client }) => client.rejected },
  ];
  if (clients.some((client) => client.worth !== null)) columns.push({ title: "Value", number: true, value: ({ client }) => (client.worth ? client.worth[0] : null), show: ({ client }) => worthOf(client) });
  if (paid) columns.push({ title: "Paid", number: true, value: ({ client }) => client.paid || 0, show: ({ client }) => amount(client.paid || 0) });
  if (byReasons.length) columns.push({ title: "Why", value: ({ client }) => client.kinds.map(([kind]) => kind).join(", "), show: ({ client }) => badges(client) });
  fillTable("rank-table", columns, rows);
}

function fillGroups() {
  const { total, count } = groupWeights(), reports = sum(count.flat()), all = sum(total.flat()) || 1;
  fillTable("group-table", [
    { title: "Group", head: true, value: (index) => run.groups[index] },
    { title: "Clients", number: true, value: (index) => clients.filter((client) => client.group === index).length },
    { title: "Reports", number: true, value: (index) => sum(count[index]) },
    { title: "Share of weight", number: true, value: (index) => sum(total[index]), show: (index) => percent(sum(total[index]) / all) },
    { title: "With equal weights", number: true, value: (index) => sum(count[index]), show: (index) => percent(reports ? sum(count[index]) / reports : 0) },
  ], run.groups.map((_, index) => index));
}

function fillFlags() {
  const refused = new Map();
  for (const [, index, reason] of run.rejected) refused.set(index, [...(refused.get(index) || []), reason]);
  const rows = [...new Set([...byReasons, ...refused.keys()])];
  document.getElementById("flag-table").parentElement.hidden = !rows.length;
  const flaggedAt = (index) => clients[index].at.filter((_, step) => accuses(clients[index].why[step])).map((place) => run.rounds[place]);
  fillTable("flag-table", [
    { title: "Client", head: true, value: (index) => clients[index].name, show: (index) => nameCell(clients[index]) },
    { title: "Flagged", number: true, value: (index) => clients[index].flagged, show: (index) => `${clients[index].flagged} of ${clients[index].rounds}` },
    { title: "First", number: true, value: (index) => flaggedAt(index)[0] ?? null },
    { title: "Last", number: true, value: (index) => flaggedAt(index).at(-1) ?? null },
    { title: "Reasons", value: (index) => clients[index].kinds.map(([kind]) => kind).join(", "), show: (index) => badges(clients[index]) },
    { title: "Median evidence", number: true, value: (index) => quantile(clients[index].evidence, 0.5), show: (index) => digits(quantile(clients[index].evidence, 0.5), 1) },
    { title: "Rejected", value: (index) => (refused.get(index) || []).length, show: (index) => { const why = refused.get(index) || []; return why.length ? `${why.length}: ${[...new Set(why)].slice(0, 3).join("; ")}` : ""; } },
  ], rows);
}

function fillSettings() {
  const rows = [...Object.entries(run.versions), ...run.settings].filter(([, value]) => value !== "");
  fillTable("settings-table", [{ title: "Setting", head: true, value: ([key]) => key }, { title: "Value", value: ([, value]) => value }], rows);
}
