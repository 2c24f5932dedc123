// One client's own page: where it stands, round by round, and what it was paid.
const chosenClient = () => {
  const asked = location.hash.startsWith("#client=") ? location.hash.slice("#client=".length) : null;
  if (asked === null) return null;
  let name = asked;
  try { name = decodeURIComponent(asked); } catch { /* an address somebody typed: taken as it is */ }
  return { name, client: clients.find((client) => sound(client.name) === name) };
};

function showView() {
  const chosen = chosenClient();
  document.getElementById("run-view").hidden = Boolean(chosen);
  document.getElementById("client-view").hidden = !chosen;
  document.getElementById("nav").parentElement.hidden = Boolean(chosen);
  if (chosen) showClient(chosen);
  else drawRun();
}

function showClient({ name, client }) {
  const get = (id) => document.getElementById(id);
  get("client-title").textContent = visible(client ? title(client) : name);
  if (!client) {
    get("client-tiles").replaceChildren();
    for (const id of ["client-chart", "client-pay-chart"]) nothing(id, "No client of this name has taken part so far.");
    get("statement-text").textContent = "";
    get("statement-links").hidden = true;
    fillTable("statement-table", [], []);
    return;
  }
  const rank = scored.indexOf(clients.indexOf(client)) + 1, weight = sum(client.weight);
  get("client-tiles").replaceChildren(
    tile("rank by mean score", rank ? `${rank} of ${scored.length}` : "–", run.groupsAre === "behaviours" ? run.groups[client.group] : ""),
    tile("rounds", String(client.rounds), client.rejected ? `${client.rejected} replies rejected` : ""),
    tile("mean score", digits(client.mean), client.half ? `± ${digits(client.half)}` : ""),
    tile("share of the weight", percent(weight / (sum(clients.map((other) => sum(other.weight))) || 1))),
    tile("flagged", `${client.flagged} of ${client.rounds}`, client.kinds.map(([kind, times]) => `${kind} × ${times}`).join(", ")),
    ...(client.worth ? [tile("value, as peers judged", worthOf(client), "what its updates added to the judges' metric")] : []),
    tile("paid", client.paid === null ? "–" : amount(client.paid)),
  );
  drawClient(client);
  drawClientPay(client);
  const chain = run.chain;
  get("statement-text").textContent = chain
    ? `From the ledger, head ${chain.head || "none"}; ${chain.problem ? `it does not verify: ${chain.problem}` : "its content is what was hashed"}. ${chain.public_key ? `Signed with ${chain.public_key}.` : "Not signed."}`
    : "Not from a ledger: nothing proves that it was not changed.";
  const proves = Boolean(run.live && chain);
  get("statement-links").hidden = !proves;
  if (proves) {
    const which = `${new URL(run.live, location.href).search}&client=${encodeURIComponent(sound(client.name))}`;
    get("statement-file").href = `/statement${which}`;
    get("statement-page").href = `/statement/page${which}`;
  }
  const columns = [
    { title: "Round", number: true, head: true, value: (step) => run.rounds[client.at[step]] },
    { title: "Score", number: true, value: (step) => client.score[step], show: (step) => digits(client.score[step]) },
    { title: "Weight", number: true, value: (step) => client.weight[step], show: (step) => digits(client.weight[step]) },
    { title: "Evidence", number: true, value: (step) => client.evidence[step], show: (step) => digits(client.evidence[step], 1) },
    { title: "Paid", number: true, value: (step) => client.reward[step], show: (step) => (present(client.reward[step]) ? amount(client.reward[step]) : "") },
    { title: "Note", value: (step) => reasonAt(client, step) },
  ];
  fillTable("statement-table", columns, client.at.map((_, step) => step));
}

function drawClient(client) {
  if (!client.at.length) { nothing("client-chart", "No reply of this client was used."); return; }
  const per = run.rounds.map(() => []);
  for (const other of clients) if (other !== client) other.at.forEach((place, step) => per[place].push(other.score[step]));
  const [low, middle, high] = [0.1, 0.5, 0.9].map((share) => per.map((values) => quantile(values, share)));
  const rounds = roundsOf(client);
  draw("client-chart", `Score of ${title(client)} over ${rounds.length} rounds, beside the others.`, {
    x: roundAxis(), y: numeric("score", [...low, ...high, ...client.score], { zero: true }),
    legend: [[named(client), colour("c0")], ["the others, median and band", colour("muted"), dashes[1]]],
    paint: (frame) => {
      band(frame, run.rounds, low, high, { shade: colour("muted"), opacity: 0.18 });
      line(frame, run.rounds, middle, { shade: colour("muted"), width: 1.5, dash: dashes[1] });
      line(frame, rounds, client.score, { shade: colour("c0"), width: 2.5, key: "client" });
      client.score.forEach((value, step) => {
        if (!present(value)) return;
        const px = frame.x(rounds[step]), py = frame.y(value), flagged = accuses(client.why[step]);
        frame.svg.append(marker(px, py, flagged ? 2 : 0, 4, colour(flagged ? "c6" : "c0")));
        frame.hit(px, py, () => [`round ${rounds[step]}: ${digits(value)}`, because(reasonAt(client, step))]);
      });
    },
  });
}

function drawClientPay(client) {
  if (!client.at.length) { nothing("client-pay-chart", "No reply of this client was used."); return; }
  const rounds = roundsOf(client), paid = client.paid === null ? null : cumulated(client.reward);
  draw("client-pay-chart", `Weight${paid ? " and pay so far" : ""} of ${title(client)} over rounds.`, {
    x: roundAxis(), y: numeric("weight", client.weight, { zero: true }), right: paid ? numeric("paid so far", paid, { zero: true }) : undefined,
    legend: [["weight", colour("c2")], ...(paid ? [["paid so far", colour("c1"), dashes[1]]] : [])],
    paint: (frame) => {
      line(frame, rounds, client.weight, { shade: colour("c2"), width: 2 });
      client.weight.forEach((value, step) => { if (present(value)) frame.hit(frame.x(rounds[step]), frame.y(value), () => [`round ${rounds[step]}`, `weight ${digits(value)}`]); });
      if (!paid) return;
      line(frame, rounds, paid, { shade: colour("c1"), width: 2, dash: dashes[1], axis: "right" });
      paid.forEach((value, step) => frame.hit(frame.x(rounds[step]), frame.right(value), () => [`round ${rounds[step]}`, `paid so far ${amount(value)}`]));
    },
  });
}
