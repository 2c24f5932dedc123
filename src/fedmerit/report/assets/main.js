// Put the page together, and let people choose.
const get = (id) => document.getElementById(id);
let drawing = Promise.resolve(); // one after the other
const soon = (...steps) => { for (const step of steps) drawing = drawing.then(step); return drawing; };

function onClick(chart) {
  chart.removeAllListeners("plotly_click");
  chart.on("plotly_click", ({ points }) => {
    const index = points[0].customdata;
    if (Number.isInteger(index) && index >= 0) toggle(index);
  });
}

function select(indexes) {
  state.selected = indexes;
  keepState(); fillChips(); fillRanking(); soon(drawCourses);
}
const toggle = (index) =>
  select(state.selected.includes(index) ? state.selected.filter((other) => other !== index) : [...state.selected, index]);

const MOST_MATCHES = 12;
function fillChips() {
  const chip = (index, verb) => {
    const item = element("li"), name = title(clients[index]), button = element("button", name || "(empty)", { type: "button", "aria-label": `${verb} ${name}`, title: name });
    button.addEventListener("click", () => { toggle(index); get("search").focus(); });
    item.append(button);
    return item;
  };
  get("chosen").replaceChildren(...state.selected.map((index, order) => {
    const item = chip(index, "remove");
    item.firstChild.style.setProperty("--mark", `var(--c${order % 8})`);
    return item;
  }));
  const words = state.search.toLowerCase();
  const hits = words ? clients.map((_, index) => index).filter((index) => found(clients[index], words)) : [];
  get("matches").replaceChildren(...hits.slice(0, MOST_MATCHES).filter((index) => !state.selected.includes(index)).map((index) => chip(index, "select")));
  get("found").textContent = words ? `${hits.length} of ${clients.length} clients found${hits.length > MOST_MATCHES ? `, the first ${MOST_MATCHES} shown` : ""}` : `${clients.length} clients, ${state.selected.length} selected`;
}

function fillTop() {
  const first = run.rounds[0], last = run.rounds.at(-1);
  get("title").textContent = run.title;
  get("subtitle").textContent = (run.rounds.length ? `rounds ${first} to ${last}, ` : "no rounds yet, ") + `written ${run.made}`;
  get("footer").textContent = `${run.versions["this page"]}, ${run.versions.charts}. This file is complete: it loads nothing and sends nothing.`;
  for (const section of document.querySelectorAll("main section")) {
    const item = element("li"), link = element("a", section.querySelector("h2").textContent, { href: `#${section.id}` });
    item.append(link);
    get("nav").append(item);
  }
  const metric = run.metrics.find(([name, values]) => name !== "loss" && values.some((value) => value !== null)), often = clients.filter((client) => standing(client) === 2).length;
  const paid = clients.filter((client) => client.paid !== null), total = sum(paid.map((client) => client.paid));
  const tile = (name, value, note) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", value));
    if (note) box.append(element("dd", note, { class: "note" }));
    return box;
  };
  get("tiles").replaceChildren(
    tile("rounds", String(run.rounds.length)),
    tile("clients", String(clients.length)),
    tile("flagged at least once", String(byFlags.length), often ? `${often} of them mostly` : ""),
    tile("paid", paid.length ? amount(total) : "–", paid.length ? `to ${paid.filter((client) => client.paid).length} clients` : "no payments recorded"),
    tile("rejected replies", String(run.rejected.length)),
    ...(metric ? [tile(metric[0], digits(metric[1].at(-1), 3), `highest ${digits(Math.max(...metric[1].filter((value) => value !== null)), 3)}`)] : []),
  );
  const chain = run.chain, facts = [];
  if (chain) {
    facts.push(["record", chain.problem ? `does not verify: ${chain.problem}` : "verified: all stored content is what was hashed"], ["head", chain.head || "none"], ["signed with", chain.public_key || "not signed"]);
    if (chain.problem) { get("alarm").hidden = false; get("alarm").textContent = `This record was changed after it was written. ${chain.problem}`; }
  } else facts.push(["record", "not from a ledger: nothing proves that it was not changed"]);
  get("chain").replaceChildren(...facts.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
}

function listen() {
  for (const [key, title] of measures) get("measure").append(element("option", title, { value: key }));
  get("measure").value = state.measure;
  get("measure").addEventListener("change", (event) => { state.measure = event.target.value; keepState(); soon(drawCourses); });
  get("search").value = state.search;
  get("search").addEventListener("input", (event) => { state.search = event.target.value.trim(); keepState(); fillChips(); fillRanking(); });
  get("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") get("matches").querySelector("button")?.click();
    if (event.key === "Escape") { event.target.value = ""; event.target.dispatchEvent(new Event("input")); }
  });
  for (const button of document.querySelectorAll("[data-pick]")) button.addEventListener("click", () => select(picks[button.dataset.pick]()));
  const slider = get("map-round");
  slider.max = String(Math.max(0, run.agreement.length - 1));
  slider.value = slider.max;
  slider.addEventListener("input", () => soon(drawMap));
  if (run.refresh) {
    get("refresh-box").hidden = false;
    get("refresh-text").textContent = `refresh every ${run.refresh} s`;
    setInterval(() => { if (get("refresh").checked && document.activeElement !== get("search")) location.reload(); }, run.refresh * 1000);
  }
}

const all = [drawMetrics, drawCourses, drawRanking, drawMap, drawGroups, drawFlags, drawEvidence, drawPayments, drawCertificate];
showTheme(currentTheme());
fillTop(); listen(); fillChips(); fillRanking(); fillGroups(); fillFlags(); fillSettings();
soon(...all, () => { root.dataset.ready = "true"; });
themeListeners.push(() => soon(...all));
let width = innerWidth;
addEventListener("resize", () => { // a narrow screen has other margins and labels
  if (width < 640 !== innerWidth < 640) soon(...all);
  width = innerWidth;
});
