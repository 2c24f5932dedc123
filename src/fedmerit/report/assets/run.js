// The run, what follows from it, and what of it is selected. A live page reads it again and again.
const OFTEN = 0.5, SMOOTH = 5, MOST_SELECTED = 8;
let run, clients, byFlags, byReasons, scored, measures; // clients: best first
const state = { selected: [], measure: "score", search: "" };

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

const roundsOf = (client) => client.at.map((place) => run.rounds[place]);
const standing = (client) =>
  !client.flagged ? 0 : client.flagged / Math.max(1, client.rounds) >= OFTEN ? 2 : 1;
const standings = ["never flagged", "flagged in some rounds", "flagged in half of its rounds or more"];
const reasonAt = (client, step) => (client.why[step] ? run.reasons[client.why[step] - 1][0] : "");
const accuses = (why) => why > 0 && run.kinds[run.reasons[why - 1][1]][1];
// How a client calls itself stands behind its id, never in its place.
const title = (client) => (client.label ? `${client.name} · ${client.label}` : client.name);
const found = (client, words) => [client.name, client.label || ""].some((text) => text.toLowerCase().includes(words));
// The address of a client's own page; a name may hold what no address can.
const sound = (text) => text.replace(/\p{Cs}/gu, "\uFFFD");
const addressOf = (client) => `#client=${encodeURIComponent(sound(client.name))}`;

const picks = {
  top: () => scored.slice(0, 5),
  bottom: () => scored.slice(-5),
  flagged: () => byFlags.slice(0, MOST_SELECTED),
  none: () => [],
};

const storeKey = () => `fedmerit-state-${run.title}`;
function keepState() {
  const selected = state.selected.map((index) => clients[index].name);
  remember("sessionStorage", storeKey(), JSON.stringify({ ...state, selected }));
}

function setRun(data) {
  // Names, not places: in a run that goes on, places change.
  const before = run ? { ...state, selected: state.selected.map((index) => clients[index].name) } : null;
  run = data;
  clients = run.clients;
  const all = clients.map((_, index) => index);
  const flagsFirst = (a, b) => clients[b].flagged - clients[a].flagged || a - b;
  byFlags = all.filter((index) => clients[index].flagged).sort(flagsFirst);
  // Why a client has no weight or no pay does not accuse it, but is told.
  byReasons = all.filter((index) => clients[index].kinds.length).sort(flagsFirst);
  scored = all.filter((index) => clients[index].mean !== null);
  measures = [
    ["score", "score", (client) => client.score],
    ["smooth", `score, mean of ${SMOOTH} rounds`, (client) => running(client.score, SMOOTH)],
    ["total", "score, total so far", (client) => cumulated(client.score)],
    ["weight", "weight", (client) => client.weight],
  ];
  if (clients.some((client) => client.evidence.length))
    measures.push(["evidence", "evidence of private work", (client) => client.evidence]);
  if (clients.some((client) => client.paid !== null))
    measures.push(["paid", "paid so far", (client) => cumulated(client.reward)]);
  const saved = before || JSON.parse(remembered("sessionStorage", storeKey()) || "null") || {};
  state.selected = saved.selected
    ? all.filter((index) => saved.selected.includes(clients[index].name))
    : [...new Set([...scored.slice(0, 3), ...byFlags.slice(0, 2)])];
  state.measure = measures.some(([key]) => key === saved.measure) ? saved.measure : run.rounds.length > 30 ? "smooth" : "score";
  state.search = saved.search || "";
}
