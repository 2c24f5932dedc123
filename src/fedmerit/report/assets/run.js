// The run, and what of it is selected.
const run = JSON.parse(document.getElementById("data").textContent);
const clients = run.clients; // best first
const OFTEN = 0.5, SMOOTH = 5, MOST_SELECTED = 8;

function running(values, size) {
  return values.map((_, end) => {
    const part = values.slice(Math.max(0, end - size + 1), end + 1).filter((value) => value !== null);
    return part.length ? sum(part) / part.length : null;
  });
}
function cumulated(values) {
  let total = 0;
  return values.map((value) => (total += value || 0));
}

const measures = [
  ["score", "score", (client) => client.score],
  ["smooth", `score, mean of ${SMOOTH} rounds`, (client) => running(client.score, SMOOTH)],
  ["total", "score, total so far", (client) => cumulated(client.score)],
  ["weight", "weight", (client) => client.weight],
];
if (clients.some((client) => client.evidence.length))
  measures.push(["evidence", "evidence of private work", (client) => client.evidence]);
if (clients.some((client) => client.paid !== null))
  measures.push(["paid", "paid so far", (client) => cumulated(client.reward)]);

const roundsOf = (client) => client.at.map((place) => run.rounds[place]);
const standing = (client) =>
  !client.flagged ? 0 : client.flagged / Math.max(1, client.at.length) >= OFTEN ? 2 : 1;
const standings = ["never flagged", "flagged in some rounds", "flagged in half of its rounds or more"];
const byFlags = clients.map((_, index) => index).filter((index) => clients[index].flagged)
  .sort((a, b) => clients[b].flagged - clients[a].flagged || a - b);

// Why a client has no weight or no pay does not accuse it, but is told.
const byReasons = clients.map((_, index) => index).filter((index) => clients[index].kinds.length)
  .sort((a, b) => clients[b].flagged - clients[a].flagged || a - b);
const reasonAt = (client, step) => (client.why[step] ? run.reasons[client.why[step] - 1][0] : "");
const accuses = (why) => why > 0 && run.kinds[run.reasons[why - 1][1]][1];
// How a client calls itself stands behind its id, never in its place.
const title = (client) => (client.label ? `${client.name} · ${client.label}` : client.name);
const found = (client, words) => [client.name, client.label || ""].some((text) => text.toLowerCase().includes(words));

const scored = clients.map((_, index) => index).filter((index) => clients[index].mean !== null);
const picks = {
  top: () => scored.slice(0, 5),
  bottom: () => scored.slice(-5),
  flagged: () => byFlags.slice(0, MOST_SELECTED),
  none: () => [],
};

const storeKey = `fedmerit-state-${run.title}`;
const saved = JSON.parse(remembered("sessionStorage", storeKey) || "null") || {};
const state = {
  // Names, not places: in a run that goes on, places change.
  selected: saved.selected
    ? clients.map((_, index) => index).filter((index) => saved.selected.includes(clients[index].name))
    : [...new Set([...scored.slice(0, 3), ...byFlags.slice(0, 2)])],
  measure: measures.some(([key]) => key === saved.measure) ? saved.measure : run.rounds.length > 30 ? "smooth" : "score",
  search: saved.search || "",
};
function keepState() {
  const selected = state.selected.map((index) => clients[index].name);
  remember("sessionStorage", storeKey, JSON.stringify({ ...state, selected }));
}
